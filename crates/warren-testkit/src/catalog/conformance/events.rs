use std::collections::BTreeSet;
use std::thread;

use warren_core::catalog::{Catalog, EventFilter};
use warren_core::{DeathCause, Event, EventRecord, Owner};

use super::{Check, ann, bob, new};

pub(super) const CHECKS: &[Check] = &[
    events_are_read_in_order_by_owner,
    of_many_who_append_at_once_each_number_is_given_once,
    events_are_chosen_before_they_are_counted,
    forgotten_numbers_are_not_used_again,
];

/// Happened at that second.
fn event(owner: &Owner, second: u64) -> EventRecord {
    let records = new(owner, 1);
    EventRecord {
        number: 0,
        at_unix_ms: second * 1000,
        owner: owner.clone(),
        sandbox: Some(records.sandbox.id),
        session: second.is_multiple_of(2).then_some(records.session.id),
        // Its own field has the name of the record's.
        event: Event::RunRecorded { run: 99, tokens: 1, duration_ms: 2 },
    }
}

fn append(catalog: &dyn Catalog, events: &[EventRecord]) -> Vec<EventRecord> {
    let numbers = catalog.append_events(events).expect("a change");
    assert_eq!(numbers.len(), events.len());
    numbers.into_iter().zip(events.to_vec()).map(|(number, event)| EventRecord { number, ..event }).collect()
}

fn events_are_read_in_order_by_owner(catalog: &dyn Catalog) {
    assert_eq!(catalog.last_event().expect("a query"), 0);
    assert!(append(catalog, &[]).is_empty(), "nothing is something to append");
    let first = append(catalog, &[event(&ann(), 1), event(&bob(), 2), event(&ann(), 4)]);
    let died = Event::SandboxDied {
        cause: DeathCause::Killed { by: "bob".to_owned() },
        detail: "asked for".to_owned(),
        files_kept: true,
    };
    let last = append(catalog, &[EventRecord { sandbox: None, event: died, ..event(&ann(), 1) }]).remove(0);
    let of_ann = [first[0].clone(), first[2].clone(), last.clone()];
    assert!(of_ann[0].number > 0 && of_ann.is_sorted_by(|one, two| one.number < two.number));
    let read = |after, limit| catalog.events(&ann(), &EventFilter::default(), after, limit).expect("a query");
    assert_eq!(read(0, 100), of_ann);
    assert_eq!(read(0, 2), of_ann[..2]);
    assert_eq!(read(of_ann[0].number, 1), of_ann[1..2]);
    assert_eq!(read(of_ann[1].number, 100), of_ann[2..]);
    assert!(read(last.number, 100).is_empty() && read(u64::MAX, 100).is_empty() && read(0, 0).is_empty());
    assert_eq!(catalog.events(&bob(), &EventFilter::default(), 0, 100).expect("a query"), first[1..2]);
    assert_eq!(catalog.last_event().expect("a query"), last.number);
}

fn events_are_chosen_before_they_are_counted(catalog: &dyn Catalog) {
    let wanted = new(&ann(), 7);
    let of_wanted =
        |second| EventRecord { sandbox: Some(wanted.sandbox.id.clone()), ..event(&ann(), second) };
    let all =
        append(catalog, &[event(&ann(), 1), of_wanted(3), event(&ann(), 5), of_wanted(7), of_wanted(8)]);
    let read =
        |filter: &EventFilter, after, limit| catalog.events(&ann(), filter, after, limit).expect("a query");
    let of_sandbox = EventFilter { sandbox: Some(wanted.sandbox.id.clone()), ..EventFilter::default() };
    assert_eq!(read(&of_sandbox, 0, 2), [all[1].clone(), all[3].clone()]);
    assert_eq!(read(&of_sandbox, all[3].number, 2), all[4..]);
    let both = EventFilter { session: all[4].session.clone(), ..of_sandbox.clone() };
    assert_eq!(read(&both, 0, 100), all[4..]);
    assert!(catalog.events(&bob(), &of_sandbox, 0, 100).expect("a query").is_empty());
}

fn of_many_who_append_at_once_each_number_is_given_once(catalog: &dyn Catalog) {
    let given: Vec<u64> = thread::scope(|scope| {
        let append = || (0..20).flat_map(|_| append(catalog, &[event(&ann(), 1), event(&ann(), 2)]));
        let writers: Vec<_> = (0..4)
            .map(|_| scope.spawn(move || append().map(|event| event.number).collect::<Vec<_>>()))
            .collect();
        let mut all = Vec::new();
        for writer in writers {
            let numbers = writer.join().expect("no panic");
            assert!(numbers.is_sorted_by(|one, two| one < two), "{numbers:?}");
            all.extend(numbers);
        }
        all
    });
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 160);
    let read = catalog.events(&ann(), &EventFilter::default(), 0, 1000).expect("a query");
    assert!(read.is_sorted_by(|one, two| one.number < two.number) && read.len() == 160);
}

fn forgotten_numbers_are_not_used_again(catalog: &dyn Catalog) {
    let all = append(catalog, &[event(&ann(), 1), event(&bob(), 2), event(&ann(), 3)]);
    assert_eq!(catalog.forget_events(1000).expect("a change"), 0);
    assert_eq!(catalog.forget_events(3000).expect("a change"), 2);
    assert_eq!(catalog.events(&ann(), &EventFilter::default(), 0, 100).expect("a query"), all[2..]);
    assert_eq!(catalog.forget_events(u64::MAX).expect("a change"), 1);
    assert_eq!(catalog.last_event().expect("a query"), all[2].number);
    assert!(append(catalog, &[event(&ann(), 4)])[0].number > all[2].number);
}
