use std::time::{Duration, Instant};

use warren_core::catalog::{Durability, SnapshotCatalog as _, SnapshotFilter};
use warren_core::{LayerId, Owner, PageRequest, SnapshotRecord, Stack};
use warren_testkit::{sample_node, sample_snapshot};

use super::TestCatalog;

const COUNT: u32 = 10_000;
const DEPTH: u32 = 16;

/// Each stands on its own layer and on those of the ones before it.
fn chain() -> Vec<SnapshotRecord> {
    let owner = Owner::first();
    let layer = |number: u32| LayerId::from_random(u128::from(number).to_be_bytes());
    (1..=COUNT)
        .map(|number| SnapshotRecord {
            stack: Stack((number.saturating_sub(DEPTH) + 1..=number).rev().map(layer).collect()),
            name: number.is_multiple_of(1000).then(|| format!("mark {number}")),
            ..sample_snapshot(&owner, number)
        })
        .collect()
}

/// Far more than it takes, and far less than it would take without the index.
fn quickly<T>(what: &str, ask: impl Fn() -> T) -> T {
    let began = Instant::now();
    let answers: Vec<T> = (0..10).map(|_| ask()).collect();
    assert!(began.elapsed() < Duration::from_secs(10), "{what}: ten times in {:?}", began.elapsed());
    answers.into_iter().next().unwrap()
}

#[test]
fn of_ten_thousand_snapshots_some_are_found_quickly() {
    let catalog = TestCatalog::new();
    let every = chain();
    for part in every.chunks(1000) {
        catalog.insert_snapshots(part, Durability::Process).unwrap();
    }
    let sandbox = Some(every[0].sandbox.clone());
    let page = PageRequest::default();
    let list = |filter: &SnapshotFilter| catalog.snapshots(&Owner::first(), filter, &page).unwrap().items;
    let all = SnapshotFilter::default();
    assert_eq!(quickly("list all", || list(&all)).len(), 100);
    let here = SnapshotFilter { sandbox, ..all.clone() };
    assert_eq!(quickly("list a sandbox's", || list(&here)).len(), 100);
    let named = SnapshotFilter { named: true, ..all };
    assert_eq!(quickly("list those with a name", || list(&named)).len(), 10);
    let one = SnapshotFilter { name: Some("mark 3000".to_owned()), ..here };
    assert_eq!(quickly("find a name", || list(&one))[0], every[2999]);
    let layers = quickly("list layers", || catalog.layers_of_snapshots(&sample_node()).unwrap());
    assert_eq!(layers.len(), COUNT as usize);
    let on = quickly("find who stands on a layer", || {
        catalog.snapshots_on(&sample_node(), &every[5000].stack.0[0]).unwrap()
    });
    assert_eq!(on.len(), DEPTH as usize);
    assert!(
        quickly("find what is not durable", || catalog.undurable_snapshots(&sample_node()).unwrap())
            .is_empty()
    );
    assert_eq!(
        quickly("list templates", || catalog.templates_of_snapshots(&sample_node()).unwrap()).len(),
        1
    );
}
