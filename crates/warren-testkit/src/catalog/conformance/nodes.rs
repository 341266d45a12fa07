use warren_core::catalog::{Catalog, Durability, NewRecords, SandboxFilter, SnapshotFilter};
use warren_core::{Deadline, KeyId, NodeId, NodeRecord, PageRequest, SandboxRecord, SnapshotRecord, Stack};

use super::super::records::{bits, sample_snapshot};
use super::sandboxes::died;
use super::{Check, ann, here, insert, new};

pub(super) const CHECKS: &[Check] = &[
    a_nodes_record_is_changed_in_parts,
    sandboxes_of_another_node_are_listed_and_left_alone,
    snapshots_of_another_node_are_listed_and_left_alone,
    each_node_counts_its_own_layers,
];

fn elsewhere() -> NodeId {
    NodeId::from_random([0xe1; 16])
}

fn a_nodes_record_is_changed_in_parts(catalog: &dyn Catalog) {
    let read = || catalog.node_record().expect("a query");
    assert_eq!(read(), NodeRecord::default());
    let anchor = Deadline { boot_id: "boot".to_owned(), boot_ms: 1, unix_ms: u64::from(u32::MAX) * 1000 };
    catalog.update_node(&mut |record| record.clock_anchor = Some(anchor.clone())).expect("a change");
    let key = KeyId::from_random(bits(1));
    catalog.update_node(&mut |record| record.local_key = Some(key.clone())).expect("a change");
    catalog
        .update_node(&mut |record| record.snapshots_boot = Some("a \"boot\"".to_owned()))
        .expect("a change");
    let boot = Some("a \"boot\"".to_owned());
    assert_eq!(read(), NodeRecord { clock_anchor: Some(anchor), snapshots_boot: boot, local_key: Some(key) });
    assert_eq!(catalog.node(), catalog.node());
}

fn sandboxes_of_another_node_are_listed_and_left_alone(catalog: &dyn Catalog) {
    let ours = insert(catalog, &ann(), 1);
    let NewRecords { sandbox, session, .. } = new(&ann(), 2);
    let theirs = SandboxRecord { node: elsewhere(), ..sandbox };
    catalog
        .insert(NewRecords { sandbox: theirs.clone(), session: session.clone(), idempotency: None })
        .expect("it is new");
    let unfinished = |node: &NodeId| catalog.unfinished_sandboxes(node).expect("a query");
    assert_eq!(unfinished(&here()), std::slice::from_ref(&ours.sandbox));
    assert_eq!(unfinished(&elsewhere()), std::slice::from_ref(&theirs));
    let open = |node: &NodeId| catalog.open_sessions(node).expect("a query");
    assert_eq!((open(&here()), open(&elsewhere())), (vec![ours.session], vec![session]));
    let page = catalog.sandboxes(&ann(), &SandboxFilter::default(), &PageRequest::default());
    assert_eq!(page.expect("a query").items, [theirs.clone(), ours.sandbox.clone()]);
    for record in [&ours.sandbox, &theirs] {
        catalog.update_sandbox(&died(record, 100, false), Durability::Process).expect("the next one");
    }
    assert_eq!(catalog.forget_sandboxes(&here(), 200).expect("a change"), 1);
    let left = catalog.sandbox(&ann(), &theirs.id).expect("a query").expect("it is another node's");
    assert_eq!(left.node, elsewhere());
    let moved = SandboxRecord { node: here(), generation: left.generation + 1, ..left };
    catalog.update_sandbox(&moved, Durability::Process).expect("the next one");
    assert_eq!(catalog.forget_sandboxes(&here(), 200).expect("a change"), 1, "a record says where it is");
}

fn snapshots_of_another_node_are_listed_and_left_alone(catalog: &dyn Catalog) {
    let ours = SnapshotRecord { durable: false, ..sample_snapshot(&ann(), 1) };
    let mut theirs = SnapshotRecord { node: elsewhere(), durable: false, ..sample_snapshot(&ann(), 2) };
    theirs.spec.template = "python".parse().expect("a name");
    catalog.insert_snapshots(&[ours.clone(), theirs.clone()], Durability::Process).expect("they are new");
    let page = catalog.snapshots(&ann(), &SnapshotFilter::default(), &PageRequest::default());
    assert_eq!(page.expect("a query").items, [theirs.clone(), ours.clone()]);
    for (node, record) in [(here(), &ours), (elsewhere(), &theirs)] {
        let undurable = catalog.undurable_snapshots(&node).expect("a query");
        assert_eq!(undurable, std::slice::from_ref(record));
        let templates = catalog.templates_of_snapshots(&node).expect("a query");
        assert_eq!(templates, [record.spec.template.clone()].into());
        let layers = catalog.layers_of_snapshots(&node).expect("a query");
        assert_eq!(layers, [record.stack.0[0].clone()].into());
    }
}

fn each_node_counts_its_own_layers(catalog: &dyn Catalog) {
    let ours = sample_snapshot(&ann(), 1);
    let layer = ours.stack.0[0].clone();
    let theirs =
        SnapshotRecord { node: elsewhere(), stack: Stack(vec![layer.clone()]), ..sample_snapshot(&ann(), 2) };
    catalog.insert_snapshots(&[ours.clone(), theirs.clone()], Durability::Process).expect("they are new");
    let on = |node: &NodeId| catalog.snapshots_on(node, &layer).expect("a query");
    let counts = |node: &NodeId| catalog.layers_of_snapshots(node).expect("a query").contains(&layer);
    assert_eq!((on(&here()), on(&elsewhere())), (vec![ours.clone()], vec![theirs.clone()]));
    catalog.delete_snapshots(&ann(), &[ours.id]).expect("a change");
    assert_eq!((counts(&here()), counts(&elsewhere())), (false, true));
    let moved = SnapshotRecord { node: here(), ..theirs };
    catalog.update_snapshot(&moved, Durability::Process).expect("it is there");
    assert_eq!((counts(&here()), counts(&elsewhere())), (true, false));
    assert_eq!(on(&here()), [moved]);
}
