use std::collections::{BTreeSet, HashSet};

use warren_core::catalog::{Catalog, CatalogErrorKind, Durability, SnapshotFilter};
use warren_core::{
    LayerId, Owner, PageRequest, SandboxRecord, SessionId, SnapshotId, SnapshotMethod, SnapshotReason,
    SnapshotRecord, Space, Stack, TemplateName,
};

use super::super::records::{bits, sample_sandbox, sample_snapshot};
use super::sandboxes::died;
use super::{Check, ann, bob, here, insert, kind};

pub(super) const CHECKS: &[Check] = &[
    a_snapshot_is_read_as_it_was_written,
    snapshots_are_inserted_all_or_none,
    snapshots_and_their_sandbox_are_recorded_together_or_not,
    a_name_is_used_once_in_a_sandbox,
    another_owners_snapshot_is_unknown,
    an_update_leaves_the_parent,
    snapshot_lists_are_filtered,
    snapshots_are_counted_by_sandbox,
    snapshot_pages_are_stable_while_items_come_and_go,
    children_go_on_with_the_parent_of_what_was_removed,
    layers_and_templates_are_counted,
    what_is_not_durable_is_found_at_the_start,
    snapshots_outlive_their_sandbox,
];

fn put(catalog: &dyn Catalog, record: &SnapshotRecord) {
    catalog.insert_snapshots(std::slice::from_ref(record), Durability::Process).expect("it is new");
}

fn get(catalog: &dyn Catalog, record: &SnapshotRecord) -> Option<SnapshotRecord> {
    catalog.snapshot(&record.owner, &record.id).expect("a query")
}

fn layer(number: u32) -> LayerId {
    LayerId::from_random(bits(number))
}

fn named(number: u32, name: &str) -> SnapshotRecord {
    SnapshotRecord { name: Some(name.to_owned()), ..sample_snapshot(&ann(), number) }
}

fn child(number: u32, parent: &SnapshotRecord) -> SnapshotRecord {
    SnapshotRecord { parent: Some(parent.id.clone()), ..sample_snapshot(&ann(), number) }
}

fn ids(records: &[SnapshotRecord]) -> Vec<SnapshotId> {
    records.iter().map(|record| record.id.clone()).collect()
}

fn snapshots_are_counted_by_sandbox(catalog: &dyn Catalog) {
    let one = sample_snapshot(&ann(), 1);
    for record in [&one, &child(2, &one), &sample_snapshot(&bob(), 3)] {
        put(catalog, record);
    }
    let none = warren_core::SandboxId::from_random(bits(99));
    let counts = catalog.count_snapshots(&ann(), &[one.sandbox.clone(), none]).expect("a query");
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(one.sandbox.clone(), 2)]);
    assert!(catalog.count_snapshots(&ann(), &[]).expect("a query").is_empty());
}

fn a_snapshot_is_read_as_it_was_written(catalog: &dyn Catalog) {
    let mut record = SnapshotRecord {
        session: Some(SessionId::from_random(bits(5))),
        parent: Some(SnapshotId::from_random(bits(6))),
        name: Some("quote\"'\\ 🐇\n".to_owned()),
        reason: SnapshotReason::Turn,
        turn: Some(3),
        method: SnapshotMethod::Cloned,
        stack: Stack(vec![layer(3), layer(2), layer(1)]),
        space: Some(Space { bytes: 1 << 60, inodes: 7 }),
        ..sample_snapshot(&ann(), 1)
    };
    record.spec.env.insert("NAME".to_owned(), "\u{1}\u{fffd}".to_owned());
    put(catalog, &record);
    assert_eq!(get(catalog, &record), Some(record.clone()));
    let changed = SnapshotRecord {
        name: None,
        session: None,
        stack: Stack(vec![layer(9)]),
        space: None,
        durable: false,
        damaged: true,
        ..record
    };
    catalog.update_snapshot(&changed, Durability::Disk).expect("it is there");
    assert_eq!(get(catalog, &changed), Some(changed));
    let unknown = sample_snapshot(&ann(), 99);
    assert_eq!(kind(catalog.update_snapshot(&unknown, Durability::Process)), CatalogErrorKind::NotFound);
}

fn snapshots_are_inserted_all_or_none(catalog: &dyn Catalog) {
    let [one, two, three] = [1, 2, 3].map(|number| sample_snapshot(&ann(), number));
    catalog.insert_snapshots(&[], Durability::Disk).expect("nothing is something to insert");
    catalog.insert_snapshots(&[one.clone(), two.clone()], Durability::Disk).expect("they are new");
    let again = [three.clone(), one.clone()];
    let failed = kind(catalog.insert_snapshots(&again, Durability::Process));
    assert_eq!((failed, get(catalog, &three)), (CatalogErrorKind::AlreadyExists, None));
    let same_name = [named(4, "name"), named(5, "name")];
    assert_eq!(
        kind(catalog.insert_snapshots(&same_name, Durability::Process)),
        CatalogErrorKind::AlreadyExists
    );
    assert_eq!(get(catalog, &same_name[0]), None);
    assert_eq!(catalog.layers_of_snapshots(&here()).expect("a query"), HashSet::from([layer(1), layer(2)]));
    assert_eq!((get(catalog, &one), get(catalog, &two)), (Some(one), Some(two)));
}

fn snapshots_and_their_sandbox_are_recorded_together_or_not(catalog: &dyn Catalog) {
    let mut sandbox = insert(catalog, &ann(), 1).sandbox;
    let first = named(1, "first");
    let record = |sandbox: &SandboxRecord, snapshot: &SnapshotRecord| {
        catalog.record_snapshots(sandbox, std::slice::from_ref(snapshot), Durability::Process)
    };
    assert_eq!(kind(record(&sandbox, &first)), CatalogErrorKind::Stale);
    assert_eq!(get(catalog, &first), None);
    sandbox.generation = 2;
    sandbox.history.head = Some(first.id.clone());
    record(&sandbox, &first).expect("the generation follows");
    assert_eq!(get(catalog, &first), Some(first.clone()));
    assert_eq!(catalog.sandbox(&ann(), &sandbox.id).expect("a query"), Some(sandbox.clone()));

    let next = SandboxRecord { generation: 3, ..sandbox.clone() };
    assert_eq!(kind(record(&next, &named(2, "first"))), CatalogErrorKind::AlreadyExists);
    assert_eq!(catalog.sandbox(&ann(), &sandbox.id).expect("a query"), Some(sandbox));
    let mut unknown = sample_sandbox(&ann(), 9);
    unknown.generation = 2;
    assert_eq!(kind(record(&unknown, &sample_snapshot(&ann(), 3))), CatalogErrorKind::NotFound);
}

fn a_name_is_used_once_in_a_sandbox(catalog: &dyn Catalog) {
    let first = named(1, "name");
    put(catalog, &first);
    let second = named(2, "name");
    let taken = kind(catalog.insert_snapshots(std::slice::from_ref(&second), Durability::Process));
    assert_eq!(taken, CatalogErrorKind::AlreadyExists);
    let elsewhere = SnapshotRecord { sandbox: sample_sandbox(&ann(), 2).id, ..named(3, "name") };
    put(catalog, &elsewhere);
    let other = named(4, "other");
    put(catalog, &other);
    let renamed = SnapshotRecord { name: Some("name".to_owned()), ..other.clone() };
    let taken = kind(catalog.update_snapshot(&renamed, Durability::Process));
    assert_eq!((taken, get(catalog, &other)), (CatalogErrorKind::AlreadyExists, Some(other)));
    catalog.update_snapshot(&first, Durability::Process).expect("it has the name itself");
    let nameless = SnapshotRecord { name: None, ..first };
    catalog.update_snapshot(&nameless, Durability::Process).expect("it is there");
    catalog.update_snapshot(&renamed, Durability::Process).expect("the name is free");
    put(catalog, &sample_snapshot(&ann(), 5));
}

fn another_owners_snapshot_is_unknown(catalog: &dyn Catalog) {
    let record = sample_snapshot(&ann(), 1);
    put(catalog, &record);
    assert_eq!(catalog.snapshot(&bob(), &record.id).expect("a query"), None);
    let filter = SnapshotFilter { sandbox: Some(record.sandbox.clone()), ..SnapshotFilter::default() };
    for filter in [filter, SnapshotFilter::default()] {
        let page = catalog.snapshots(&bob(), &filter, &PageRequest::default()).expect("a query");
        assert!(page.items.is_empty());
    }
    let taken = SnapshotRecord { owner: bob(), name: Some("mine".to_owned()), ..record.clone() };
    assert_eq!(kind(catalog.update_snapshot(&taken, Durability::Process)), CatalogErrorKind::NotFound);
    let deleted = catalog.delete_snapshots(&bob(), std::slice::from_ref(&record.id)).expect("a change");
    assert_eq!((deleted, get(catalog, &record)), (0, Some(record)));
}

fn an_update_leaves_the_parent(catalog: &dyn Catalog) {
    let first = sample_snapshot(&ann(), 1);
    let stale = child(2, &first);
    catalog.insert_snapshots(&[first.clone(), stale.clone()], Durability::Process).expect("they are new");
    catalog.delete_snapshots(&ann(), &[first.id]).expect("a change");
    catalog.update_snapshot(&stale, Durability::Process).expect("it is there");
    assert_eq!(get(catalog, &stale).expect("it is there").parent, None, "not that of one who read it before");
}

fn snapshot_lists_are_filtered(catalog: &dyn Catalog) {
    let session = SessionId::from_random(bits(1));
    let plain = sample_snapshot(&ann(), 1);
    let first = named(2, "first");
    let of_session = SnapshotRecord { session: Some(session.clone()), ..sample_snapshot(&ann(), 3) };
    let mut elsewhere = named(4, "first");
    elsewhere.sandbox = sample_sandbox(&ann(), 2).id;
    elsewhere.session = Some(session.clone());
    for record in [&plain, &first, &of_session, &elsewhere, &sample_snapshot(&bob(), 5)] {
        put(catalog, record);
    }
    let here = || SnapshotFilter { sandbox: Some(plain.sandbox.clone()), ..SnapshotFilter::default() };
    let name = Some("first".to_owned());
    let expect = |filter: SnapshotFilter, wanted: &[&SnapshotRecord]| {
        let page = catalog.snapshots(&ann(), &filter, &PageRequest::default()).expect("a query");
        assert_eq!(page.items.iter().collect::<Vec<_>>(), wanted, "{filter:?}");
        assert_eq!(page.next, None);
    };
    expect(SnapshotFilter::default(), &[&elsewhere, &of_session, &first, &plain]);
    expect(here(), &[&of_session, &first, &plain]);
    expect(SnapshotFilter { named: true, ..here() }, &[&first]);
    expect(SnapshotFilter { name: name.clone(), ..here() }, &[&first]);
    expect(SnapshotFilter { name: name.clone(), ..SnapshotFilter::default() }, &[&elsewhere, &first]);
    expect(SnapshotFilter { named: true, ..SnapshotFilter::default() }, &[&elsewhere, &first]);
    expect(SnapshotFilter { name: Some("none".to_owned()), ..here() }, &[]);
    let session = Some(session);
    let of = SnapshotFilter { session: session.clone(), ..SnapshotFilter::default() };
    expect(of, &[&elsewhere, &of_session]);
    expect(SnapshotFilter { session: session.clone(), ..here() }, &[&of_session]);
    expect(SnapshotFilter { session: session.clone(), named: true, ..here() }, &[]);
    expect(SnapshotFilter { session, name, ..here() }, &[]);
}

fn snapshot_pages_are_stable_while_items_come_and_go(catalog: &dyn Catalog) {
    let at = |number: u32, created_s: u32| SnapshotRecord {
        created_unix_ms: u64::from(created_s) * 1000,
        ..sample_snapshot(&ann(), number)
    };
    // Ten of each moment, so that the id tells them apart.
    let every: Vec<SnapshotRecord> = (100..150).map(|number| at(number, number / 10)).collect();
    catalog.insert_snapshots(&every, Durability::Process).expect("they are new");
    let mut seen = Vec::new();
    let mut request = PageRequest { limit: 7, after: None };
    for later in 500.. {
        let filter = SnapshotFilter { sandbox: Some(at(1, 1).sandbox), ..SnapshotFilter::default() };
        let page = catalog.snapshots(&ann(), &filter, &request).expect("a query");
        assert!(page.items.len() == 7 || page.next.is_none());
        put(catalog, &at(later, later));
        // The one that the cursor names goes.
        let last = page.items.last().map(|record| record.id.clone());
        catalog.delete_snapshots(&ann(), last.as_slice()).expect("a change");
        seen.extend(page.items);
        request.after = page.next;
        if request.after.is_none() {
            break;
        }
    }
    let places: Vec<_> = seen.iter().map(|record| (record.created_unix_ms, record.id.clone())).collect();
    assert!(places.windows(2).all(|pair| pair[0] > pair[1]), "the newest first, by id where they are as old");
    let set = |records: &[SnapshotRecord]| ids(records).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(set(&seen), set(&every));
}

fn children_go_on_with_the_parent_of_what_was_removed(catalog: &dyn Catalog) {
    let root = sample_snapshot(&ann(), 1);
    let second = child(2, &root);
    let third = child(3, &second);
    let fourth = child(4, &third);
    let fork = SnapshotRecord { sandbox: sample_sandbox(&ann(), 2).id, ..child(5, &third) };
    let all = [root.clone(), second.clone(), third.clone(), fourth.clone(), fork.clone()];
    catalog.insert_snapshots(&all, Durability::Process).expect("they are new");
    let parent = |record: &SnapshotRecord| get(catalog, record).expect("it is there").parent;
    let missing = SnapshotId::from_random(bits(99));
    let delete = |owner: &Owner, ids: &[SnapshotId]| catalog.delete_snapshots(owner, ids).expect("a change");
    assert_eq!(delete(&ann(), &[second.id, missing, third.id]), 2);
    assert_eq!((parent(&fourth), parent(&fork)), (Some(root.id.clone()), Some(root.id.clone())));
    let wanted = SnapshotRecord { parent: Some(root.id.clone()), ..fork.clone() };
    assert_eq!(get(catalog, &fork), Some(wanted), "nothing else has changed");
    assert_eq!(delete(&ann(), std::slice::from_ref(&root.id)), 1);
    assert_eq!((parent(&fourth), parent(&fork)), (None, None));
    assert_eq!(delete(&ann(), &[root.id]), 0);
}

fn layers_and_templates_are_counted(catalog: &dyn Catalog) {
    let on = |number: u32, owner: &Owner, layers: &[u32]| SnapshotRecord {
        stack: Stack(layers.iter().copied().map(layer).collect()),
        ..sample_snapshot(owner, number)
    };
    let (mut low, high, theirs) = (on(1, &ann(), &[1]), on(2, &ann(), &[2, 1]), on(3, &bob(), &[3, 1]));
    low.spec.template = "python".parse().expect("a name");
    catalog.insert_snapshots(&[low.clone(), high.clone(), theirs.clone()], Durability::Process).expect("new");
    let counted = || {
        let found = catalog.layers_of_snapshots(&here()).expect("a query");
        (1..=4).filter(|number| found.contains(&layer(*number))).collect::<Vec<_>>()
    };
    let standing = |number: u32| {
        let mut found = ids(&catalog.snapshots_on(&here(), &layer(number)).expect("a query"));
        found.sort();
        found
    };
    assert_eq!(counted(), [1, 2, 3]);
    assert_eq!(standing(1), [low.id.clone(), high.id.clone(), theirs.id.clone()]);
    assert_eq!(standing(2), std::slice::from_ref(&high.id));
    let python: TemplateName = "python".parse().expect("a name");
    let templates = || catalog.templates_of_snapshots(&here()).expect("a query");
    assert_eq!(templates(), HashSet::from([TemplateName::host(), python]));
    let warm = SnapshotRecord { memory: Some(layer(4)), ..high.clone() };
    catalog.update_snapshot(&warm, Durability::Process).expect("it is there");
    assert_eq!(counted(), [1, 2, 3, 4]);
    assert_eq!(catalog.snapshots_on(&here(), &layer(4)).expect("a query"), [warm]);
    catalog.update_snapshot(&high, Durability::Process).expect("it is there");
    assert_eq!(counted(), [1, 2, 3]);
    let squashed = SnapshotRecord { stack: Stack(vec![layer(4)]), ..high.clone() };
    catalog.update_snapshot(&squashed, Durability::Process).expect("it is there");
    assert_eq!(counted(), [1, 3, 4]);
    assert_eq!(catalog.snapshots_on(&here(), &layer(4)).expect("a query"), [squashed]);
    catalog.delete_snapshots(&ann(), &[low.id]).expect("a change");
    assert_eq!((counted(), standing(1)), (vec![1, 3, 4], vec![theirs.id.clone()]));
    catalog.delete_snapshots(&bob(), &[theirs.id]).expect("a change");
    assert_eq!((counted(), templates()), (vec![4], HashSet::from([TemplateName::host()])));
}

fn what_is_not_durable_is_found_at_the_start(catalog: &dyn Catalog) {
    let safe = sample_snapshot(&ann(), 1);
    let fresh = SnapshotRecord { durable: false, ..sample_snapshot(&ann(), 2) };
    let theirs = SnapshotRecord { durable: false, ..sample_snapshot(&bob(), 3) };
    let damaged = SnapshotRecord { durable: false, damaged: true, ..sample_snapshot(&ann(), 4) };
    catalog.insert_snapshots(&[safe, fresh.clone(), theirs.clone(), damaged], Durability::Disk).expect("new");
    let found = || {
        let mut found = catalog.undurable_snapshots(&here()).expect("a query");
        found.sort_by_key(|record| record.created_unix_ms);
        found
    };
    assert_eq!(found(), [fresh.clone(), theirs.clone()]);
    catalog
        .update_snapshot(&SnapshotRecord { durable: true, ..fresh }, Durability::Disk)
        .expect("it is there");
    assert_eq!(found(), std::slice::from_ref(&theirs));
    catalog
        .update_snapshot(&SnapshotRecord { damaged: true, ..theirs }, Durability::Disk)
        .expect("it is there");
    assert_eq!(found(), []);
}

fn snapshots_outlive_their_sandbox(catalog: &dyn Catalog) {
    let sandbox = insert(catalog, &ann(), 1).sandbox;
    let record = sample_snapshot(&ann(), 1);
    assert_eq!(record.sandbox, sandbox.id);
    put(catalog, &record);
    catalog.update_sandbox(&died(&sandbox, 100, false), Durability::Process).expect("the next one");
    assert_eq!(catalog.forget_sandboxes(&here(), 200).expect("a change"), 1);
    assert_eq!(get(catalog, &record), Some(record));
    assert!(catalog.layers_of_snapshots(&here()).expect("a query").contains(&layer(1)));
}
