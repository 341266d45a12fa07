use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;

use warren_core::catalog::{
    CatalogErrorKind, Durability, JournalCatalog as _, NewRecords, SandboxCatalog as _, SessionCatalog as _,
    SnapshotCatalog as _,
};
use warren_core::{JournalEntry, Owner, SandboxRecord, SnapshotRecord, ToolAnswer};
use warren_testkit::{
    MemoryCatalog, catalog_conformance, sample_entry, sample_sandbox, sample_session, sample_snapshot,
};

fn with_a_sandbox() -> (MemoryCatalog, NewRecords) {
    let sandbox = sample_sandbox(&Owner::first(), 1);
    let session = sample_session(&sandbox, 1);
    let new = NewRecords { sandbox, session, idempotency: None };
    let catalog = MemoryCatalog::new();
    catalog.insert(new.clone()).unwrap();
    (catalog, new)
}

#[test]
fn the_twin_in_memory_is_a_catalog() {
    catalog_conformance(|| Box::new(MemoryCatalog::new()));
}

#[test]
fn a_fault_strikes_once_and_changes_nothing() {
    let (catalog, new) = with_a_sandbox();
    let next = SandboxRecord { generation: 2, ..new.sandbox.clone() };
    catalog.fail_next_call("update_sandbox", CatalogErrorKind::Full);
    catalog.fail_next(CatalogErrorKind::Busy);
    let error = catalog.sandbox(&Owner::first(), &next.id).unwrap_err();
    assert_eq!(error.kind, CatalogErrorKind::Busy);
    let error = catalog.update_sandbox(&next, Durability::Disk).unwrap_err();
    assert_eq!(error.kind, CatalogErrorKind::Full);
    assert_eq!(catalog.sandbox(&Owner::first(), &next.id).unwrap(), Some(new.sandbox));
    catalog.update_sandbox(&next, Durability::Disk).unwrap();
}

#[test]
fn each_call_is_announced() {
    let (catalog, new) = with_a_sandbox();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    catalog.before_each(move |method| seen.lock().unwrap().push(method));
    catalog.session(&Owner::first(), &new.session.id).unwrap();
    catalog.open_sessions(&warren_testkit::sample_node()).unwrap();
    assert_eq!(*calls.lock().unwrap(), ["session", "open_sessions"]);
}

#[test]
fn misuse_of_a_record_is_a_panic() {
    let (catalog, new) = with_a_sandbox();
    let record = new.sandbox;
    let leapt = SandboxRecord { generation: 3, ..record.clone() };
    let older = SandboxRecord { generation: 2, created_unix_ms: 1, ..record };
    for misused in [leapt, older] {
        let update = || catalog.update_sandbox(&misused, Durability::Process);
        assert!(catch_unwind(AssertUnwindSafe(update)).is_err(), "{misused:?}");
    }
}

#[test]
fn misuse_of_snapshots_and_the_journal_is_a_panic() {
    let (catalog, new) = with_a_sandbox();
    let snapshot = sample_snapshot(&Owner::first(), 1);
    catalog.insert_snapshots(std::slice::from_ref(&snapshot), Durability::Process).unwrap();
    let entry = sample_entry(&new.sandbox, 1);
    let number = catalog.append_entry(&entry, Durability::Process).unwrap();
    let call = ToolAnswer {
        owner: Owner::first(),
        sandbox: new.sandbox.id.clone(),
        call: "word".to_owned(),
        fingerprint: String::new(),
        answer: None,
        at_unix_ms: 1,
    };
    catalog.begin_call(&call).unwrap();
    catalog.finish_call(&call.sandbox, "word", Some("answer")).unwrap();
    let update = |snapshot: SnapshotRecord| catalog.update_snapshot(&snapshot, Durability::Process);
    let layer = snapshot.stack.0[0].clone();
    let older = JournalEntry { number, began_unix_ms: 1, ..entry.clone() };
    let misuses: [Box<dyn FnOnce() + '_>; 5] = [
        Box::new(|| update(SnapshotRecord { created_unix_ms: 1, ..snapshot.clone() }).unwrap()),
        Box::new(|| {
            update(SnapshotRecord { stack: snapshot.stack.with(layer), ..snapshot.clone() }).unwrap()
        }),
        Box::new(|| catalog.update_entries(&[older], Durability::Process).unwrap()),
        Box::new(|| {
            drop(catalog.append_entry(&JournalEntry { number: 7, ..entry.clone() }, Durability::Disk))
        }),
        Box::new(|| catalog.finish_call(&call.sandbox, "word", Some("another")).unwrap()),
    ];
    for (index, misuse) in misuses.into_iter().enumerate() {
        assert!(catch_unwind(AssertUnwindSafe(misuse)).is_err(), "misuse {index}");
    }
}

#[test]
fn a_change_that_works_only_once_is_found_out() {
    let (catalog, new) = with_a_sandbox();
    let mut client = Some("new".to_owned());
    let mut change = |record: &mut warren_core::SessionRecord| {
        record.client = client.take().expect("a change may be called again");
        Ok(None)
    };
    let update =
        || catalog.update_session(&Owner::first(), &new.session.id, Durability::Process, &mut change);
    assert!(catch_unwind(AssertUnwindSafe(update)).is_err());
}
