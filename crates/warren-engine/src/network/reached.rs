//! What a sandbox has reached, for the smallest policy that it could do with. Kept in the catalog, so that it outlives the engine.

use std::collections::BTreeSet;

use warren_core::catalog::{Catalog, CatalogError};
use warren_core::{NetworkEntry, NetworkPolicy, SandboxId};

use super::smallest::{Destination, smallest};
use crate::blocking::blocking;
use crate::error::sentence;
use crate::{Engine, EngineError, SandboxNetwork};

/// No policy has more rules, so more would be of no use.
const MOST: usize = 512;

/// What one sandbox has reached since the engine started.
#[derive(Debug, Default)]
pub(super) struct Reached {
    destinations: BTreeSet<Destination>,
    /// Not all of them are in the catalog.
    unwritten: bool,
    /// The sandbox is about to go for good: nothing more is written of it.
    given_up: bool,
}

impl Reached {
    pub(super) fn note(&mut self, entry: &NetworkEntry) {
        let Some(destination) = Destination::of(entry) else { return };
        if self.destinations.len() < MOST && self.destinations.insert(destination) {
            self.unwritten = !self.given_up;
        }
    }
}

/// Where the catalog has it.
fn key(id: &SandboxId) -> String {
    format!("network_reached.{id}")
}

fn written(catalog: &dyn Catalog, id: &SandboxId) -> Result<BTreeSet<Destination>, CatalogError> {
    let text = catalog.setting(&key(id))?;
    // What cannot be read any more is learned again.
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// Adds to what is written. Blocks.
fn add(catalog: &dyn Catalog, id: &SandboxId, more: BTreeSet<Destination>) -> Result<(), CatalogError> {
    let known = written(catalog, id)?;
    let mut all = known.clone();
    all.extend(more.into_iter().take(MOST.saturating_sub(known.len())));
    match serde_json::to_string(&all) {
        Ok(text) if all != known => catalog.set_setting(&key(id), Some(&text)),
        Ok(_) | Err(_) => Ok(()),
    }
}

impl SandboxNetwork {
    /// The smallest policy for what a sandbox was seen to reach: names and ports, and addresses where no name is known.
    pub async fn learned(&self) -> Result<NetworkPolicy, EngineError> {
        let record = self.sandbox.record().await?;
        let which = self.sandbox.id.clone();
        let mut reached = self.sandbox.engine.catalog(move |catalog| written(catalog, &which)).await?;
        let lately = self
            .sandbox
            .engine
            .shared
            .sightings
            .of(&self.sandbox.id, |known| known.reached.destinations.clone());
        reached.extend(lately.unwrap_or_default());
        let NetworkPolicy { deny, secrets, limits, .. } = record.spec.network;
        Ok(NetworkPolicy { deny, secrets, limits, ..smallest(&reached) })
    }
}

impl Engine {
    /// Writes down what was reached and is not written yet.
    pub(crate) async fn write_reached(&self) {
        let mut more = Vec::new();
        let _writing = self.shared.sightings.writing.lock().await;
        self.shared.sightings.each(|id, known| {
            if std::mem::take(&mut known.reached.unwritten) {
                more.push((id.clone(), known.reached.destinations.clone()));
            }
        });
        for (id, destinations) in more {
            let which = id.clone();
            if let Err(error) = self.catalog(move |catalog| add(catalog, &which, destinations)).await {
                self.fault();
                tracing::warn!(sandbox.id = %id, error = sentence(&error), "cannot write down what a sandbox reached");
                self.shared.sightings.of(&id, |known| known.reached.unwritten = !known.reached.given_up);
            }
        }
    }

    /// A sandbox is about to go for good: so does what it reached.
    pub(crate) async fn give_up_reached(&self, id: &SandboxId) {
        let _writing = self.shared.sightings.writing.lock().await;
        self.shared.sightings.of(id, |known| {
            known.reached.given_up = true;
            known.reached.unwritten = false;
        });
        let (engine, which) = (self.inner(), key(id));
        let removed = blocking(move || {
            let catalog = engine.shared.parts.catalog.as_ref();
            if catalog.setting(&which)?.is_some() { catalog.set_setting(&which, None) } else { Ok(()) }
        });
        if let Err(error) = removed.await {
            self.fault();
            tracing::warn!(sandbox.id = %id, error = sentence(&error), "what a removed sandbox reached is left");
        }
    }
}
