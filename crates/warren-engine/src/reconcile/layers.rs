//! Repairs snapshots after a crash: layers that the record of their sandbox does not name, and
//! snapshots that a power cut may have damaged.

use std::collections::{HashMap, HashSet};

use warren_core::catalog::{Catalog, CatalogError, Durability};
use warren_core::{Clock, Found, LayerId, LayerStore, NewLayer, SandboxId, SandboxRecord, Stack, Status};

use crate::Engine;
use crate::error::sentence;

/// Marks snapshots that were not on disk when the machine stopped, and sees to those that are not
/// yet. Blocks.
pub(super) fn check_durability(engine: &Engine) -> Result<(), CatalogError> {
    let catalog = engine.shared.parts.catalog.as_ref();
    let boot = engine.shared.parts.clock.boot_id();
    let same_boot = catalog.node_record()?.snapshots_boot.is_some_and(|known| known == boot);
    let unsafe_yet = catalog.undurable_snapshots(catalog.node())?;
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
        catalog.update_node(&mut |record| record.snapshots_boot = Some(boot.to_owned()))?;
    }
    Ok(())
}

/// Brings records up to date that do not know of a layer which their sandbox stands on: the process
/// ended between the seal and the word of it. `known` are those that have a driver already. Blocks.
pub(super) fn correct_stacks<'a>(
    engine: &Engine,
    records: &mut [SandboxRecord],
    found: impl Iterator<Item = &'a Found>,
    known: impl Fn(&SandboxId) -> bool,
) -> Result<(), CatalogError> {
    let parts = &engine.shared.parts;
    let (catalog, layers) = (parts.catalog.as_ref(), parts.layers.as_ref());
    let stacks: HashMap<&SandboxId, (Stack, bool)> = found
        .filter(|found| !found.root.trees().is_empty())
        .map(|found| (&found.id, (layers.stack_of(found.root.trees()), found.alive)))
        .collect();
    for record in records.iter_mut().filter(|record| !known(&record.id)) {
        let Some((stack, alive)) = stacks.get(&record.id) else { continue };
        // It was started where it was sent, and has written since: that is not to be cleared away.
        if *alive && (record.history.moved || record.unplaced) {
            let mut next = record.clone();
            next.history.moved = false;
            next.unplaced = false;
            next.generation += 1;
            catalog.update_sandbox(&next, Durability::Process)?;
            *record = next;
        }
        if let Some(layer) = unknown_layer(record, stack) {
            correct(engine, catalog, layers, record, layer)?;
        }
    }
    Ok(())
}

/// The layer that is there beside all that the record knows of. Which is on top of which is for the
/// record to say: layers that change different trees could stand either way round. One that was
/// sent elsewhere stands where its record says as soon as it is started.
fn unknown_layer<'a>(record: &SandboxRecord, stack: &'a Stack) -> Option<&'a LayerId> {
    let half_made = record.status == Status::Creating && record.death.is_none();
    if half_made || record.history.moved || stack.depth() != record.history.stack.depth() + 1 {
        return None;
    }
    let known: HashSet<&LayerId> = record.history.stack.0.iter().collect();
    let mut unknown = stack.0.iter().filter(|layer| !known.contains(layer));
    unknown.next().filter(|_| unknown.next().is_none())
}

fn correct(
    engine: &Engine,
    catalog: &dyn Catalog,
    layers: &dyn LayerStore,
    record: &mut SandboxRecord,
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
    next.history.stack = record.history.stack.with(layer.clone());
    next.history.redo.clear();
    next.generation += 1;
    catalog.update_sandbox(&next, Durability::Process)?;
    tracing::info!(sandbox.id = %record.id, layer.id = %layer, "a seal that was cut short is written down");
    *record = next;
    Ok(())
}

#[cfg(test)]
mod tests {
    use warren_core::Owner;
    use warren_testkit::sample_sandbox;

    use super::*;

    fn layers(numbers: &[u8]) -> Stack {
        Stack(numbers.iter().map(|number| LayerId::from_random([*number; 16])).collect())
    }

    fn unknown(recorded: &[u8], found: &[u8]) -> Option<LayerId> {
        let mut record = SandboxRecord { status: Status::Ready, ..sample_sandbox(&Owner::first(), 1) };
        record.history.stack = layers(recorded);
        unknown_layer(&record, &layers(found)).cloned()
    }

    #[test]
    fn a_layer_that_the_record_does_not_know_is_found_wherever_it_lies() {
        let three = layers(&[3]).0.remove(0);
        assert_eq!(unknown(&[2, 1], &[3, 2, 1]), Some(three.clone()));
        assert_eq!(unknown(&[2, 1], &[2, 3, 1]), Some(three.clone()), "they change different trees");
        assert_eq!(unknown(&[], &[3]), Some(three));
    }

    #[test]
    fn what_was_squashed_or_is_known_is_left_alone() {
        assert_eq!(unknown(&[2, 1], &[2, 1]), None);
        assert_eq!(unknown(&[9], &[3, 2, 1]), None, "9 is equal to these");
        assert_eq!(unknown(&[9], &[2, 1]), None, "and to these");
        assert_eq!(unknown(&[3, 2], &[1]), None);
    }

    #[test]
    fn one_that_was_sent_elsewhere_is_where_its_record_says() {
        let mut record = SandboxRecord { status: Status::Ready, ..sample_sandbox(&Owner::first(), 1) };
        record.history.moved = true;
        assert_eq!(unknown_layer(&record, &layers(&[1])), None);
    }
}
