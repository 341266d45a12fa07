use std::collections::BTreeSet;
use std::thread;

use warren_core::catalog::{Catalog, CatalogErrorKind, Durability, SandboxFilter};
use warren_core::{
    Cursor, DeathCause, DeathCertificate, Owner, PageRequest, Paused, PausedBy, RunId, SandboxId,
    SandboxRecord, SessionState, Status,
};

use super::super::records::{bits, sample_session};
use super::sessions::run;
use super::{Check, ann, bob, here, insert, key, kind, new};

pub(super) const CHECKS: &[Check] = &[
    a_record_is_read_as_it_was_written,
    an_id_is_used_once,
    an_update_must_know_the_last_generation,
    of_many_updates_of_one_generation_one_works,
    another_owners_sandbox_is_unknown,
    lists_are_filtered,
    pages_hold_every_item_once_while_others_are_inserted,
    what_is_not_over_is_found_at_the_start,
    forgetting_takes_sessions_runs_and_keys_along,
    an_owner_has_one_default_sandbox,
];

fn a_record_is_read_as_it_was_written(catalog: &dyn Catalog) {
    let mut record = insert(catalog, &ann(), 1).sandbox;
    record.generation = 2;
    record.status = Status::Paused;
    record.spec.labels.insert("quote\"'\\".to_owned(), "\u{1}\u{fffd}🐇".to_owned());
    record.spec.env.insert("NAME".to_owned(), "line\nline".to_owned());
    record.paused = Some(Paused {
        by: PausedBy::Idleness,
        since_unix_ms: u64::from(u32::MAX) * 1000,
        deadline: record.deadline.clone(),
    });
    catalog.update_sandbox(&record, Durability::Disk).expect("the generation follows");
    let stopped = died(&record, 7, true);
    assert_eq!(catalog.sandbox(&ann(), &record.id).expect("it is there"), Some(record));
    catalog.update_sandbox(&stopped, Durability::Process).expect("the generation follows");
    assert_eq!(catalog.sandbox(&ann(), &stopped.id).expect("it is there"), Some(stopped));
}

fn an_id_is_used_once(catalog: &dyn Catalog) {
    let first = insert(catalog, &ann(), 1);
    let mut second = new(&ann(), 2);
    second.sandbox.id = first.sandbox.id.clone();
    second.session.sandbox = first.sandbox.id.clone();
    assert_eq!(kind(catalog.insert(second.clone())), CatalogErrorKind::AlreadyExists);
    assert_eq!(catalog.session(&ann(), &second.session.id).expect("a query"), None, "all or none");

    let mut third = new(&ann(), 3);
    third.session.id = first.session.id.clone();
    assert_eq!(kind(catalog.insert(third.clone())), CatalogErrorKind::AlreadyExists);
    assert_eq!(catalog.sandbox(&ann(), &third.sandbox.id).expect("a query"), None, "all or none");
}

fn an_update_must_know_the_last_generation(catalog: &dyn Catalog) {
    let mut record = insert(catalog, &ann(), 1).sandbox;
    assert_eq!(kind(catalog.update_sandbox(&record, Durability::Process)), CatalogErrorKind::Stale);
    record.generation = 2;
    record.made_in_ms = 2;
    catalog.update_sandbox(&record, Durability::Process).expect("the generation follows");
    let mut stale = record.clone();
    stale.made_in_ms = 3;
    assert_eq!(kind(catalog.update_sandbox(&stale, Durability::Disk)), CatalogErrorKind::Stale);
    assert_eq!(catalog.sandbox(&ann(), &record.id).expect("a query"), Some(record));
    let mut unknown = new(&ann(), 9).sandbox;
    unknown.generation = 2;
    assert_eq!(kind(catalog.update_sandbox(&unknown, Durability::Disk)), CatalogErrorKind::NotFound);
}

fn of_many_updates_of_one_generation_one_works(catalog: &dyn Catalog) {
    let mut record = insert(catalog, &ann(), 1).sandbox;
    for generation in 2..20 {
        let attempt = |writer: u64| {
            let mut record = record.clone();
            record.generation = generation;
            record.made_in_ms = writer;
            catalog.update_sandbox(&record, Durability::Process).is_ok().then_some(record)
        };
        let won: Vec<SandboxRecord> = thread::scope(|scope| {
            let writers: Vec<_> = (0..4).map(|writer| scope.spawn(move || attempt(writer))).collect();
            writers.into_iter().filter_map(|writer| writer.join().expect("no panic")).collect()
        });
        assert_eq!(won.len(), 1);
        assert_eq!(catalog.sandbox(&ann(), &record.id).expect("a query").as_ref(), won.first());
        record.generation = generation;
    }
}

fn another_owners_sandbox_is_unknown(catalog: &dyn Catalog) {
    let mut record = insert(catalog, &ann(), 1).sandbox;
    assert_eq!(catalog.sandbox(&bob(), &record.id).expect("a query"), None);
    let every = SandboxFilter { ended: true, ..SandboxFilter::default() };
    assert!(catalog.sandboxes(&bob(), &every, &PageRequest::default()).expect("a query").items.is_empty());
    let id = record.id.clone();
    record.generation = 2;
    record.owner = bob();
    assert_eq!(kind(catalog.update_sandbox(&record, Durability::Disk)), CatalogErrorKind::NotFound);
    let stored = catalog.sandbox(&ann(), &id).expect("a query").expect("it is there");
    assert_eq!((stored.owner, stored.generation), (ann(), 1));
}

fn lists_are_filtered(catalog: &dyn Catalog) {
    let mut ready = insert(catalog, &ann(), 1).sandbox;
    ready.generation = 2;
    ready.status = Status::Ready;
    ready.spec.labels.extend([("team".to_owned(), "a\"b".to_owned()), ("x".to_owned(), "y".to_owned())]);
    ready.metadata.insert("note".to_owned(), "🐇".to_owned());
    catalog.update_sandbox(&ready, Durability::Process).expect("the generation follows");
    let kept = died(&insert(catalog, &ann(), 2).sandbox, 50, true);
    let gone = died(&insert(catalog, &ann(), 3).sandbox, 50, false);
    for record in [&kept, &gone] {
        catalog.update_sandbox(record, Durability::Process).expect("the generation follows");
    }
    let all = || SandboxFilter { ended: true, ..SandboxFilter::default() };
    let entry = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
    let expect = |filter: SandboxFilter, wanted: &[&SandboxRecord]| {
        let page = catalog.sandboxes(&ann(), &filter, &PageRequest::default()).expect("a query");
        assert_eq!(page.items.iter().collect::<Vec<_>>(), wanted, "{filter:?}");
        assert_eq!(page.next, None);
    };
    expect(SandboxFilter::default(), &[&kept, &ready]);
    expect(all(), &[&gone, &kept, &ready]);
    expect(SandboxFilter { statuses: vec![Status::Stopped], ..all() }, &[&gone, &kept]);
    expect(SandboxFilter { statuses: vec![Status::Stopped], ..SandboxFilter::default() }, &[&kept]);
    expect(SandboxFilter { statuses: vec![Status::Ready, Status::Paused], ..all() }, &[&ready]);
    expect(SandboxFilter { labels: entry("team", "a\"b"), ..all() }, &[&ready]);
    expect(SandboxFilter { labels: entry("team", "a"), ..all() }, &[]);
    expect(SandboxFilter { metadata: entry("note", "🐇"), ..all() }, &[&ready]);
    expect(SandboxFilter { metadata: entry("team", "a\"b"), ..all() }, &[]);
    let mut both = SandboxFilter { labels: entry("team", "a\"b"), ..all() };
    both.labels.insert("x".to_owned(), "y".to_owned());
    expect(both.clone(), &[&ready]);
    both.labels.insert("x".to_owned(), "z".to_owned());
    expect(both, &[]);
}

fn pages_hold_every_item_once_while_others_are_inserted(catalog: &dyn Catalog) {
    let every: BTreeSet<SandboxId> =
        (100..150).map(|number| insert_at(catalog, number, number / 10)).collect();
    let mut seen = Vec::new();
    let mut after: Option<Cursor> = None;
    for later in 500.. {
        let request = PageRequest { limit: 7, after };
        let page = catalog.sandboxes(&ann(), &SandboxFilter::default(), &request).expect("a query");
        assert!(page.items.len() == 7 || page.next.is_none());
        seen.extend(page.items);
        insert_at(catalog, later, later);
        insert(catalog, &bob(), later + 500);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let places: Vec<_> = seen.iter().map(|record| (record.created_unix_ms, record.id.clone())).collect();
    assert!(places.windows(2).all(|pair| pair[0] > pair[1]), "the newest first, by id where they are as old");
    assert_eq!(seen.into_iter().map(|record| record.id).collect::<BTreeSet<_>>(), every);
    let one = PageRequest { limit: 1, after: None };
    let first = catalog.sandboxes(&ann(), &SandboxFilter::default(), &one).expect("a query");
    assert_eq!(first.items.len(), 1);
    assert!(first.next.is_some());
}

fn what_is_not_over_is_found_at_the_start(catalog: &dyn Catalog) {
    let live = insert(catalog, &ann(), 1).sandbox;
    let kept = died(&insert(catalog, &bob(), 2).sandbox, 50, true);
    let gone = died(&insert(catalog, &bob(), 3).sandbox, 50, false);
    for record in [&kept, &gone] {
        catalog.update_sandbox(record, Durability::Process).expect("the generation follows");
    }
    let mut found = catalog.unfinished_sandboxes(&here()).expect("a query");
    found.sort_by_key(|record| record.created_unix_ms);
    assert_eq!(found, [live, kept]);
}

fn forgetting_takes_sessions_runs_and_keys_along(catalog: &dyn Catalog) {
    let mut old = new(&ann(), 1);
    old.idempotency = Some(key(&old, "old", 1000));
    catalog.insert(old.clone()).expect("it is new");
    catalog.insert_session(&sample_session(&old.sandbox, 11), None).expect("the sandbox is there");
    let record = |id| run(catalog, &ann(), &old.session.id, id);
    record(RunId::from_random(bits(1))).expect("the session may run");
    let (recent, kept) = (insert(catalog, &ann(), 2), insert(catalog, &ann(), 3));
    let live = insert(catalog, &ann(), 4);
    for (new, at, files_kept) in [(&old, 100, false), (&recent, 200, false), (&kept, 100, true)] {
        catalog
            .update_sandbox(&died(&new.sandbox, at, files_kept), Durability::Process)
            .expect("the next one");
    }
    assert_eq!(catalog.forget_sandboxes(&here(), 100).expect("a change"), 0);
    assert_eq!(catalog.forget_sandboxes(&here(), 200).expect("a change"), 1);
    assert_eq!(catalog.sandbox(&ann(), &old.sandbox.id).expect("a query"), None);
    assert_eq!(catalog.session(&ann(), &old.session.id).expect("a query"), None);
    assert!(catalog.runs(&ann(), &old.session.id).expect("a query").is_empty());
    assert_eq!(catalog.remembered(&ann(), "old").expect("a query"), None);
    for new in [recent, kept, live] {
        let session = catalog.session(&ann(), &new.session.id).expect("a query");
        assert!(session.is_some_and(|session| session.state == SessionState::Active));
    }
    assert_eq!(catalog.open_sessions(&here()).expect("a query").len(), 3);
}

fn an_owner_has_one_default_sandbox(catalog: &dyn Catalog) {
    let (first, second) = (insert(catalog, &ann(), 1).sandbox, insert(catalog, &ann(), 2).sandbox);
    let of = |owner: &Owner| catalog.default_sandbox(owner).expect("a query");
    let set = |owner: &Owner, id: Option<&SandboxId>| catalog.set_default_sandbox(owner, id);
    assert_eq!(of(&ann()), None);
    set(&ann(), None).expect("nothing to forget is no error");
    for sandbox in [&first, &second] {
        set(&ann(), Some(&sandbox.id)).expect("it is there");
        assert_eq!(of(&ann()), Some(sandbox.id.clone()));
    }
    assert_eq!(kind(set(&bob(), Some(&first.id))), CatalogErrorKind::NotFound, "it is another's");
    assert_eq!(kind(set(&ann(), Some(&new(&ann(), 3).sandbox.id))), CatalogErrorKind::NotFound);
    assert_eq!((of(&ann()), of(&bob())), (Some(second.id.clone()), None));
    catalog.update_sandbox(&died(&second, 100, false), Durability::Process).expect("the next one");
    assert_eq!(catalog.forget_sandboxes(&here(), 200).expect("a change"), 1);
    assert_eq!(of(&ann()), None, "it is forgotten with its record");
    set(&ann(), Some(&first.id)).expect("it is there");
    set(&ann(), None).expect("a change");
    assert_eq!(of(&ann()), None);
}

fn insert_at(catalog: &dyn Catalog, number: u32, created_s: u32) -> SandboxId {
    let mut new = new(&ann(), number);
    new.sandbox.created_unix_ms = u64::from(created_s) * 1000;
    let id = new.sandbox.id.clone();
    catalog.insert(new).expect("it is new");
    id
}

/// The record's next generation, in which it has ended.
pub(super) fn died(record: &SandboxRecord, at_unix_ms: u64, files_kept: bool) -> SandboxRecord {
    let death = DeathCertificate {
        cause: DeathCause::Killed { by: "ann".to_owned() },
        detail: "asked for".to_owned(),
        at_unix_ms,
        last_output: "bye\n".to_owned(),
        processes: vec!["1 init".to_owned()],
        usage: None,
        snapshot: None,
        files_kept,
    };
    let generation = record.generation + 1;
    SandboxRecord { generation, status: Status::Stopped, paused: None, death: Some(death), ..record.clone() }
}
