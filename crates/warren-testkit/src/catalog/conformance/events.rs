use warren_core::catalog::{Catalog, CatalogErrorKind};
use warren_core::{DeathCause, Event, EventRecord, Owner};

use super::{Check, ann, bob, kind, new};

pub(super) const CHECKS: &[Check] =
    &[events_are_read_in_order_by_owner, numbers_grow, forgotten_numbers_are_not_used_again];

fn event(owner: &Owner, number: u64) -> EventRecord {
    let records = new(owner, 1);
    EventRecord {
        number,
        at_unix_ms: number * 1000,
        owner: owner.clone(),
        sandbox: Some(records.sandbox.id),
        session: number.is_multiple_of(2).then_some(records.session.id),
        // Its own field has the name of the record's.
        event: Event::RunRecorded { run: 99, tokens: 1, duration_ms: 2 },
    }
}

fn events_are_read_in_order_by_owner(catalog: &dyn Catalog) {
    let died = Event::SandboxDied {
        cause: DeathCause::Killed { by: "bob".to_owned() },
        detail: "asked for".to_owned(),
        files_kept: true,
    };
    let last = EventRecord { sandbox: None, event: died, ..event(&ann(), 9) };
    catalog.append_events(&[]).expect("nothing is something to append");
    catalog.append_events(&[event(&ann(), 1), event(&bob(), 2), event(&ann(), 4)]).expect("in order");
    catalog.append_events(std::slice::from_ref(&last)).expect("in order");
    let read = |after, limit| catalog.events(&ann(), after, limit).expect("a query");
    assert_eq!(read(0, 100), [event(&ann(), 1), event(&ann(), 4), last.clone()]);
    assert_eq!(read(0, 2), [event(&ann(), 1), event(&ann(), 4)]);
    assert_eq!(read(1, 1), [event(&ann(), 4)]);
    assert_eq!(read(4, 100), [last]);
    assert!(read(9, 100).is_empty() && read(u64::MAX, 100).is_empty() && read(0, 0).is_empty());
    assert_eq!(catalog.events(&bob(), 0, 100).expect("a query"), [event(&bob(), 2)]);
}

fn numbers_grow(catalog: &dyn Catalog) {
    assert_eq!(catalog.last_event().expect("a query"), 0);
    assert_eq!(kind(catalog.append_events(&[event(&ann(), 0)])), CatalogErrorKind::Stale);
    catalog.append_events(&[event(&ann(), 5)]).expect("in order");
    assert_eq!(kind(catalog.append_events(&[event(&ann(), 5)])), CatalogErrorKind::Stale);
    let out_of_order = [event(&ann(), 7), event(&ann(), 6)];
    assert_eq!(kind(catalog.append_events(&out_of_order)), CatalogErrorKind::Stale);
    assert_eq!(catalog.last_event().expect("a query"), 5, "all of them or none");
    assert_eq!(catalog.events(&ann(), 0, 100).expect("a query").len(), 1);
}

fn forgotten_numbers_are_not_used_again(catalog: &dyn Catalog) {
    catalog.append_events(&[event(&ann(), 1), event(&bob(), 2), event(&ann(), 3)]).expect("in order");
    assert_eq!(catalog.forget_events(1000).expect("a change"), 0);
    assert_eq!(catalog.forget_events(3000).expect("a change"), 2);
    assert_eq!(catalog.events(&ann(), 0, 100).expect("a query"), [event(&ann(), 3)]);
    assert_eq!(catalog.forget_events(u64::MAX).expect("a change"), 1);
    assert_eq!(catalog.last_event().expect("a query"), 3);
    assert_eq!(kind(catalog.append_events(&[event(&ann(), 3)])), CatalogErrorKind::Stale);
    catalog.append_events(&[event(&ann(), 4)]).expect("in order");
}
