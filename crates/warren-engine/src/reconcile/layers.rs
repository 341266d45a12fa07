//! What a crash left of snapshots: layers of which the record of their sandbox does not know, and snapshots that a power cut may
//! have damaged.

use std::collections::HashMap;

use warren_core::catalog::{Catalog, CatalogError, Durability};
use warren_core::{Clock, Found, LayerId, LayerStore, NewLayer, SandboxId, SandboxRecord, Stack, Status};

use crate::Engine;
use crate::error::sentence;

const BOOT: &str = "snapshots_boot";

/// Marks snapshots that were not on disk when the machine stopped, and sees to those that are not yet. Blocks.
pub(super) fn check_durability(engine: &Engine) -> Result<(), CatalogError> {
    let catalog = engine.shared.parts.catalog.as_ref();
    let boot = engine.shared.parts.clock.boot_id();
    let same_boot = catalog.setting(BOOT)?.is_some_and(|known| known == boot);
    let unsafe_yet = catalog.undurable_snapshots()?;
    for row in &unsafe_yet {
        if same_boot {
            engine.shared.keep.sync_soon(&row.owner, &row.id);
        } else {
            tracing::warn!(snapshot.id = %row.id, "a snapshot was not on disk when the machine stopped");
            engine.change_snapshot(&row.owner, &row.id, Durability::Disk, |row| {
                row.damaged = true;
                true
            })?;
        }
    }
    if !same_boot {
        catalog.set_setting(BOOT, Some(boot))?;
    }
    Ok(())
}

/// Brings records up to date that do not know of a layer which their sandbox stands on: the process ended between the seal and the
/// word of it. `known` are those that have a driver already. Blocks.
pub(super) fn correct_stacks<'a>(
    engine: &Engine,
    records: &mut [SandboxRecord],
    found: impl Iterator<Item = &'a Found>,
    known: impl Fn(&SandboxId) -> bool,
) -> Result<(), CatalogError> {
    let parts = &engine.shared.parts;
    let (catalog, layers) = (parts.catalog.as_ref(), parts.layers.as_ref());
    let stacks: HashMap<&SandboxId, (Stack, bool)> = found
        .filter(|found| !found.root.is_empty())
        .map(|found| (&found.id, (layers.stack_of(&found.root), found.alive)))
        .collect();
    for record in records.iter_mut().filter(|record| !known(&record.id)) {
        let Some((stack, alive)) = stacks.get(&record.id) else { continue };
        // It was started where it was sent, and has written since: that is not to be cleared away.
        if *alive && record.history.moved {
            let mut next = record.clone();
            next.history.moved = false;
            next.generation += 1;
            catalog.update_sandbox(&next, Durability::Process)?;
            *record = next;
        }
        if let Some(layer) = unknown_layer(record, stack) {
            correct(engine, catalog, layers, record, stack, layer)?;
        }
    }
    Ok(())
}

/// The layer that is on top of all that the record knows of. One that was sent elsewhere stands where its record says as soon as
/// it is started.
fn unknown_layer<'a>(record: &SandboxRecord, stack: &'a Stack) -> Option<&'a LayerId> {
    let half_made = record.status == Status::Creating && record.death.is_none();
    let (top, below) = stack.0.split_first()?;
    let here = !half_made && !record.history.moved;
    (here && below == record.history.stack.0).then_some(top)
}

fn correct(
    engine: &Engine,
    catalog: &dyn Catalog,
    layers: &dyn LayerStore,
    record: &mut SandboxRecord,
    stack: &Stack,
    layer: &LayerId,
) -> Result<(), CatalogError> {
    let clock: &dyn Clock = engine.shared.parts.clock.as_ref();
    let new =
        NewLayer { id: layer.clone(), sandbox: Some(record.id.clone()), created_unix_ms: clock.unix_ms() };
    if let Err(error) = layers.commit(&new) {
        engine.fault();
        tracing::error!(sandbox.id = %record.id, layer.id = %layer, error = sentence(&error), "a layer that a sandbox stands on cannot be used");
        return Ok(());
    }
    let mut next = record.clone();
    next.history.stack = stack.clone();
    next.history.redo.clear();
    next.generation += 1;
    catalog.update_sandbox(&next, Durability::Process)?;
    tracing::info!(sandbox.id = %record.id, layer.id = %layer, "a seal that was cut short is written down");
    *record = next;
    Ok(())
}
