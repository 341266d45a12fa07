use warren_core::catalog::{CatalogErrorKind, EventFilter, EventLog as _};
use warren_testkit::MemoryCatalog;

use super::*;

fn owner(name: &str) -> Owner {
    name.parse().unwrap()
}

fn emit(events: &Events, name: &str) {
    events.emit(0, &owner(name), (None, None), Event::SandboxAdopted);
}

fn numbers(after: After) -> Vec<u64> {
    match after {
        After::Known(news, _) => news.iter().map(|event| event.number).collect(),
        After::AskCatalog(_) => panic!("memory should know"),
    }
}

#[test]
fn each_owner_sees_its_own_events_in_order_once_they_are_numbered() {
    let (events, catalog) = (Events::after(0), MemoryCatalog::new());
    for name in ["a", "b", "a"] {
        emit(&events, name);
    }
    assert_eq!(numbers(events.since(&owner("a"), 0)), [] as [u64; 0]);
    assert!(!events.is_settled());
    events.write(&catalog).unwrap();
    assert!(events.is_settled());
    assert_eq!(numbers(events.since(&owner("a"), 0)), [1, 3]);
    assert_eq!(numbers(events.since(&owner("a"), 1)), [3]);
    assert_eq!(numbers(events.since(&owner("b"), 2)), [] as [u64; 0]);
    assert_eq!(catalog.events(&owner("a"), &EventFilter::default(), 0, 10).unwrap().len(), 2);
}

#[test]
fn memory_keeps_the_newest_and_sends_others_to_the_catalog() {
    let (events, catalog) = (Events::after(0), MemoryCatalog::new());
    for _ in 0..KEPT + 10 {
        emit(&events, "a");
    }
    events.write(&catalog).unwrap();
    assert_eq!(events.since(&owner("a"), 9), After::AskCatalog((KEPT + 10) as u64));
    assert_eq!(numbers(events.since(&owner("a"), 10)).len(), KEPT);
}

#[test]
fn events_that_cannot_be_written_keep_their_order_and_do_not_fill_the_memory() {
    let (events, catalog) = (Events::after(0), MemoryCatalog::new());
    emit(&events, "first");
    catalog.fail_next_call("append_events", CatalogErrorKind::Full);
    events.write(&catalog).unwrap_err();
    emit(&events, "second");
    events.write(&catalog).unwrap();
    assert_eq!(numbers(events.since(&owner("first"), 0)), [1]);
    assert_eq!(numbers(events.since(&owner("second"), 0)), [2]);
    for _ in 0..MOST_UNWRITTEN + 100 {
        emit(&events, "a");
    }
    catalog.fail_next_call("append_events", CatalogErrorKind::Full);
    events.write(&catalog).unwrap_err();
    emit(&events, "last");
    assert_eq!(events.recent.lock().unwritten.len(), MOST_UNWRITTEN);
    events.write(&catalog).unwrap();
    assert_eq!(numbers(events.since(&owner("last"), 16_000)), [MOST_UNWRITTEN as u64 + 2]);
}

#[test]
fn numbers_go_on_where_the_catalog_left_off() {
    let catalog = MemoryCatalog::new();
    let earlier = Events::after(0);
    for _ in 0..7 {
        emit(&earlier, "a");
    }
    earlier.write(&catalog).unwrap();
    let events = Events::after(catalog.last_event().unwrap());
    assert_eq!(events.since(&owner("a"), 3), After::AskCatalog(7));
    emit(&events, "a");
    events.write(&catalog).unwrap();
    assert_eq!(numbers(events.since(&owner("a"), 7)), [8]);
}

#[test]
fn two_engines_on_one_catalog_give_each_number_once_and_leave_no_gap() {
    let catalog = MemoryCatalog::new();
    let (one, two) = (Events::after(0), Events::after(0));
    for _ in 0..3 {
        for events in [&one, &two] {
            emit(events, "a");
            events.write(&catalog).unwrap();
        }
    }
    let all: Vec<u64> = catalog
        .events(&owner("a"), &EventFilter::default(), 0, 10)
        .unwrap()
        .iter()
        .map(|event| event.number)
        .collect();
    assert_eq!(all, [1, 2, 3, 4, 5, 6]);
    assert_eq!(one.since(&owner("a"), 3), After::AskCatalog(5), "4 is the other's");
    assert_eq!(numbers(one.since(&owner("a"), 4)), [5]);
    assert_eq!(numbers(two.since(&owner("a"), 5)), [6]);
}
