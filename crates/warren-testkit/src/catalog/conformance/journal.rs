use std::collections::BTreeSet;
use std::thread;

use warren_core::catalog::{Catalog, CatalogErrorKind, Durability};
use warren_core::{
    Action, FileDeed, JournalEntry, Outcome, SandboxId, SandboxRecord, SnapshotId, ToolAnswer,
};

use super::super::records::{bits, sample_entry, sample_sandbox};
use super::sandboxes::died;
use super::{Check, ann, bob, here, insert, kind};

pub(super) const CHECKS: &[Check] = &[
    an_entry_is_read_as_it_was_written,
    numbers_are_consecutive_with_eight_threads,
    entries_are_replaced_by_their_numbers,
    entries_are_read_newest_first_in_parts,
    another_owners_journal_is_empty,
    what_is_open_is_found,
    a_journal_needs_its_sandbox_and_goes_with_it,
    a_call_is_answered_again,
    of_many_calls_at_once_one_is_the_first,
];

fn append(catalog: &dyn Catalog, entry: &JournalEntry) -> JournalEntry {
    let number = catalog.append_entry(entry, Durability::Process).expect("the sandbox is there");
    JournalEntry { number, ..entry.clone() }
}

fn read(catalog: &dyn Catalog, sandbox: &SandboxId, before: Option<u64>, limit: u32) -> Vec<JournalEntry> {
    catalog.entries(&ann(), sandbox, before, limit).expect("a query")
}

fn ended(entry: &JournalEntry, after: Option<u32>) -> JournalEntry {
    JournalEntry {
        ended_unix_ms: Some(entry.began_unix_ms + 5),
        outcome: Some(Outcome { exit_code: Some(-1), detail: Some("killed by \"9\"\n".to_owned()) }),
        before: Some(SnapshotId::from_random(bits(1))),
        after: after.map(|number| SnapshotId::from_random(bits(number))),
        ..entry.clone()
    }
}

fn an_entry_is_read_as_it_was_written(catalog: &dyn Catalog) {
    let new = insert(catalog, &ann(), 1);
    let actions = [
        Action::Exec { command: "printf '\\0🐇'\n".to_owned(), process: None },
        Action::Tool { tool: "edit".to_owned(), call: Some("c 1".to_owned()), summary: "{}".to_owned() },
        Action::Files {
            operation: FileDeed::Rename,
            path: "/a b".to_owned(),
            to: Some("/ü".to_owned()),
            bytes: Some(u64::MAX),
            files: Some(2),
        },
        Action::Turn,
        Action::Rollback { to: SnapshotId::from_random(bits(7)) },
        Action::Promote {
            from: sample_sandbox(&ann(), 2).id,
            path: Some("/srv".to_owned()),
            command: Some("make; make test".to_owned()),
        },
        Action::Terminal { command: "bash".to_owned(), process: Some(7) },
    ];
    for (action, number) in actions.into_iter().zip(1..) {
        let session = Some(new.session.id.clone());
        let entry = JournalEntry { action, session, ..sample_entry(&new.sandbox, number) };
        let entry = append(catalog, &entry);
        assert_eq!(entry.number, u64::from(number));
        let found = || catalog.entry(&ann(), &new.sandbox.id, entry.number).expect("a query");
        assert_eq!(found(), Some(entry.clone()));
        let over = ended(&entry, Some(2));
        catalog.update_entries(std::slice::from_ref(&over), Durability::Disk).expect("a change");
        assert_eq!(found(), Some(over));
    }
    assert_eq!(catalog.entry(&ann(), &new.sandbox.id, 8).expect("a query"), None);
    assert_eq!(catalog.entry(&ann(), &new.sandbox.id, u64::MAX).expect("a query"), None);
}

fn numbers_are_consecutive_with_eight_threads(catalog: &dyn Catalog) {
    const THREADS: u32 = 8;
    const EACH: u32 = 25;
    let sandboxes = [1, 2].map(|number| insert(catalog, &ann(), number).sandbox);
    let worker = |sandbox: &SandboxRecord| -> Vec<u64> {
        (0..EACH).map(|number| append(catalog, &sample_entry(sandbox, number)).number).collect()
    };
    let given: Vec<(u32, Vec<u64>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|number| {
                let sandbox = &sandboxes[number as usize % 2];
                (number % 2, scope.spawn(move || worker(sandbox)))
            })
            .collect();
        workers.into_iter().map(|(of, worker)| (of, worker.join().expect("no panic"))).collect()
    });
    let wanted: BTreeSet<u64> = (1..=u64::from(THREADS / 2 * EACH)).collect();
    for (sandbox, of) in sandboxes.iter().zip(0..) {
        assert!(given.iter().all(|(_, numbers)| numbers.is_sorted()), "each thread's own are in order");
        let numbers = given.iter().filter(|(each, _)| *each == of).flat_map(|(_, numbers)| numbers).copied();
        assert_eq!(numbers.collect::<BTreeSet<_>>(), wanted);
        let stored = read(catalog, &sandbox.id, None, 1000);
        assert_eq!(stored.len(), wanted.len());
        assert_eq!(stored.iter().map(|entry| entry.number).collect::<BTreeSet<_>>(), wanted);
    }
}

fn entries_are_replaced_by_their_numbers(catalog: &dyn Catalog) {
    let sandbox = insert(catalog, &ann(), 1).sandbox;
    let [first, second, third] = [1, 2, 3].map(|number| append(catalog, &sample_entry(&sandbox, number)));
    let missing = JournalEntry { number: 99, ..first.clone() };
    let changed = [ended(&first, None), missing, ended(&third, Some(3))];
    catalog.update_entries(&[], Durability::Process).expect("nothing is something to change");
    catalog.update_entries(&changed, Durability::Process).expect("what is not there is left out");
    let wanted = [ended(&third, Some(3)), second, ended(&first, None)];
    assert_eq!(read(catalog, &sandbox.id, None, 10), wanted);
    let next = append(catalog, &sample_entry(&sandbox, 4));
    assert_eq!(next.number, 4, "what was left out has not used up a number");
}

fn entries_are_read_newest_first_in_parts(catalog: &dyn Catalog) {
    let sandbox = insert(catalog, &ann(), 1).sandbox;
    let other = insert(catalog, &ann(), 2).sandbox;
    let mut every: Vec<JournalEntry> = Vec::new();
    for number in 1..=10 {
        every.insert(0, append(catalog, &sample_entry(&sandbox, number)));
        append(catalog, &sample_entry(&other, number));
    }
    assert_eq!(read(catalog, &sandbox.id, None, 100), every);
    assert_eq!(read(catalog, &sandbox.id, None, 3), every[..3]);
    append(catalog, &sample_entry(&sandbox, 11));
    assert_eq!(read(catalog, &sandbox.id, Some(8), 3), every[3..6]);
    assert_eq!(read(catalog, &sandbox.id, Some(3), 100), every[8..]);
    assert_eq!(read(catalog, &sandbox.id, Some(u64::MAX), 100).len(), 11);
    assert!(read(catalog, &sandbox.id, Some(1), 100).is_empty());
    assert!(read(catalog, &sandbox.id, None, 0).is_empty());
}

fn another_owners_journal_is_empty(catalog: &dyn Catalog) {
    let sandbox = insert(catalog, &ann(), 1).sandbox;
    let entry = append(catalog, &sample_entry(&sandbox, 1));
    assert!(catalog.entries(&bob(), &sandbox.id, None, 10).expect("a query").is_empty());
    assert_eq!(catalog.entry(&bob(), &sandbox.id, entry.number).expect("a query"), None);
    let theirs = JournalEntry { owner: bob(), ..sample_entry(&sandbox, 2) };
    assert_eq!(kind(catalog.append_entry(&theirs, Durability::Process)), CatalogErrorKind::NotFound);
    let call = ToolAnswer { owner: bob(), ..call(&sandbox, "word") };
    assert_eq!(kind(catalog.begin_call(&call)), CatalogErrorKind::NotFound);
    assert_eq!(read(catalog, &sandbox.id, None, 10), [entry]);
}

fn what_is_open_is_found(catalog: &dyn Catalog) {
    let sandbox = insert(catalog, &ann(), 1).sandbox;
    let other = insert(catalog, &ann(), 2).sandbox;
    let entries = [1, 2, 3, 4].map(|number| append(catalog, &sample_entry(&sandbox, number)));
    append(catalog, &sample_entry(&other, 1));
    let still_runs = JournalEntry { ended_unix_ms: None, outcome: None, ..ended(&entries[2], Some(3)) };
    let changed = [ended(&entries[0], None), ended(&entries[1], Some(2)), still_runs.clone()];
    catalog.update_entries(&changed, Durability::Process).expect("a change");
    let open = || catalog.open_entries(&sandbox.id).expect("a query");
    assert_eq!(open(), [ended(&entries[0], None), still_runs.clone(), entries[3].clone()]);
    append(catalog, &ended(&sample_entry(&sandbox, 5), Some(5)));
    catalog.update_entries(&[ended(&entries[0], Some(9))], Durability::Process).expect("a change");
    assert_eq!(open(), [still_runs, entries[3].clone()]);
    assert!(catalog.open_entries(&sample_sandbox(&ann(), 9).id).expect("a query").is_empty());
}

fn a_journal_needs_its_sandbox_and_goes_with_it(catalog: &dyn Catalog) {
    let homeless = sample_sandbox(&ann(), 9);
    let lost = catalog.append_entry(&sample_entry(&homeless, 1), Durability::Process);
    assert_eq!(kind(lost), CatalogErrorKind::NotFound);
    assert_eq!(kind(catalog.begin_call(&call(&homeless, "word"))), CatalogErrorKind::NotFound);

    let old = insert(catalog, &ann(), 1).sandbox;
    let live = insert(catalog, &ann(), 2).sandbox;
    for sandbox in [&old, &live] {
        append(catalog, &sample_entry(sandbox, 1));
        assert_eq!(catalog.begin_call(&call(sandbox, "word")).expect("a change"), None);
    }
    catalog.update_sandbox(&died(&old, 100, false), Durability::Process).expect("the next one");
    assert_eq!(read(catalog, &old.id, None, 10).len(), 1, "a sandbox that ended has its journal");
    assert_eq!(catalog.forget_sandboxes(&here(), 200).expect("a change"), 1);
    assert!(read(catalog, &old.id, None, 10).is_empty());
    assert!(catalog.open_entries(&old.id).expect("a query").is_empty());
    catalog.finish_call(&old.id, "word", Some("late")).expect("it is not missed");
    assert_eq!(read(catalog, &live.id, None, 10).len(), 1);
    assert!(catalog.begin_call(&call(&live, "word")).expect("a query").is_some());
    insert(catalog, &ann(), 1);
    assert_eq!(append(catalog, &sample_entry(&old, 1)).number, 1, "nothing is left of the one before");
    assert_eq!(catalog.begin_call(&call(&old, "word")).expect("a change"), None);
}

fn call(sandbox: &SandboxRecord, word: &str) -> ToolAnswer {
    ToolAnswer {
        owner: sandbox.owner.clone(),
        sandbox: sandbox.id.clone(),
        call: word.to_owned(),
        fingerprint: format!("print of {word}"),
        answer: None,
        at_unix_ms: 1000,
    }
}

fn a_call_is_answered_again(catalog: &dyn Catalog) {
    let sandbox = insert(catalog, &ann(), 1).sandbox;
    let other = insert(catalog, &ann(), 2).sandbox;
    let first = call(&sandbox, "word");
    let begin = |call: &ToolAnswer| catalog.begin_call(call).expect("the sandbox is there");
    assert_eq!(begin(&first), None);
    let again = ToolAnswer { fingerprint: "another".to_owned(), at_unix_ms: 2000, ..first.clone() };
    assert_eq!(begin(&again), Some(first.clone()), "it goes on");
    assert_eq!(begin(&call(&other, "word")), None, "another sandbox's word is another word");
    assert_eq!(begin(&call(&sandbox, "Word")), None);

    catalog.finish_call(&sandbox.id, "word", Some("answer\n\"🐇\"")).expect("a change");
    let answered = ToolAnswer { answer: Some("answer\n\"🐇\"".to_owned()), ..first };
    assert_eq!(begin(&again), Some(answered.clone()));
    assert_eq!(begin(&again), Some(answered));
    catalog.finish_call(&other.id, "word", None).expect("a change");
    assert_eq!(begin(&call(&other, "word")), None, "what was forgotten may be made again");
    catalog.finish_call(&sandbox.id, "never", Some("answer")).expect("it is not missed");
    catalog.finish_call(&sandbox.id, "never", None).expect("it is not missed");
    assert_eq!(begin(&call(&sandbox, "never")), None);
}

fn of_many_calls_at_once_one_is_the_first(catalog: &dyn Catalog) {
    const THREADS: u64 = 16;
    let sandbox = insert(catalog, &ann(), 1).sandbox;
    for round in 0..5 {
        let word = format!("word {round}");
        let attempt = |at_unix_ms: u64| {
            let call = ToolAnswer { at_unix_ms, ..call(&sandbox, &word) };
            let earlier = catalog.begin_call(&call).expect("the sandbox is there");
            if earlier.is_none() {
                catalog.finish_call(&sandbox.id, &word, Some("done")).expect("a change");
            }
            earlier.map(|earlier| earlier.at_unix_ms).ok_or(at_unix_ms)
        };
        let answers: Vec<Result<u64, u64>> = thread::scope(|scope| {
            let attempt = &attempt;
            let workers: Vec<_> = (0..THREADS).map(|at| scope.spawn(move || attempt(at))).collect();
            workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
        });
        let first: Vec<u64> = answers.iter().filter_map(|answer| answer.err()).collect();
        assert_eq!(first.len(), 1, "{answers:?}");
        assert!(answers.iter().filter_map(|answer| answer.ok()).all(|told| told == first[0]));
        let kept = catalog.begin_call(&call(&sandbox, &word)).expect("a query").expect("it was made");
        assert_eq!((kept.at_unix_ms, kept.answer.as_deref()), (first[0], Some("done")));
    }
}
