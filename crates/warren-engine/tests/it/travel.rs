//! Helpers for tests of snapshots.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

use warren_core::catalog::SnapshotFilter;
use warren_core::{LayerStore, Owner, PageRequest, SandboxId, SnapshotId, SnapshotRecord};
use warren_engine::{Engine, EngineError, ForkOrder, RolledBack, TakeSnapshot, Taken};

use crate::support::*;

pub(crate) async fn snap(engine: &Engine, id: &SandboxId) -> Taken {
    engine.of(&owner()).sandbox(id).history().take(TakeSnapshot::default()).await.expect("a snapshot")
}

pub(crate) async fn named(engine: &Engine, id: &SandboxId, name: &str) -> Result<Taken, EngineError> {
    let order = TakeSnapshot { name: Some(name.to_owned()), ..TakeSnapshot::default() };
    engine.of(&owner()).sandbox(id).history().take(order).await
}

/// Writes a file and captures that.
pub(crate) async fn write_and_snap(engine: &Engine, id: &SandboxId, text: &str) -> SnapshotId {
    output(engine, id, &format!("write /root/work {text}")).await;
    snap(engine, id).await.snapshot.id
}

pub(crate) async fn back(engine: &Engine, id: &SandboxId, to: &SnapshotId) -> RolledBack {
    engine.of(&owner()).sandbox(id).history().rollback(to, false).await.expect("a rollback")
}

pub(crate) async fn work(engine: &Engine, id: &SandboxId) -> String {
    output(engine, id, "read /root/work").await
}

pub(crate) fn forks(count: u32) -> ForkOrder {
    ForkOrder {
        name: None,
        count,
        client: "forker".to_owned(),
        lifetime_s: None,
        on_expiry: None,
        labels: BTreeMap::new(),
        metadata: BTreeMap::new(),
    }
}

pub(crate) async fn snapshots_of(engine: &Engine, owner: &Owner, id: &SandboxId) -> Vec<SnapshotRecord> {
    let filter = SnapshotFilter { sandbox: Some(id.clone()), ..SnapshotFilter::default() };
    let mut page = PageRequest { limit: PageRequest::MOST, after: None };
    let mut all = Vec::new();
    loop {
        let found = engine.of(owner).snapshots().list(&filter, &page).await.expect("list snapshots");
        all.extend(found.items);
        match found.next {
            Some(next) => page.after = Some(next),
            None => return all,
        }
    }
}

/// Layers that exist.
pub(crate) fn layers(world: &World) -> usize {
    world.isolation.layers().layers().expect("list layers").len()
}

/// Keeps what is written to it.
#[derive(Clone, Default)]
pub(crate) struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
