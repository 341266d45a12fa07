//! The addresses that a sandbox has reached, for the smallest policy that it could do with. Kept in
//! the catalog, so that they outlive the engine.

use warren_core::{NetworkPolicy, SandboxId};

use super::smallest::smallest;
use crate::error::sentence;
use crate::state::MOST_REACHED;
use crate::{Engine, EngineError, SandboxNetwork};

impl SandboxNetwork {
    /// The smallest policy for what a sandbox was seen to reach: names and ports, and addresses
    /// where no name is known.
    pub async fn learned(&self) -> Result<NetworkPolicy, EngineError> {
        let record = self.sandbox.record().await?;
        let (whose, which) = (self.sandbox.owner().clone(), self.sandbox.id.clone());
        let engine = &self.sandbox.engine;
        let mut reached = engine.catalog(move |catalog| catalog.reached(&whose, &which)).await?;
        let sightings = &engine.shared.sightings;
        let lately = sightings.of(&self.sandbox.id, |known| known.reached.destinations.clone());
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
            let written =
                self.catalog(move |catalog| catalog.add_reached(&which, &destinations, MOST_REACHED));
            if let Err(error) = written.await {
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
        let which = id.clone();
        if let Err(error) = self.catalog(move |catalog| catalog.forget_reached(&which)).await {
            self.fault();
            tracing::warn!(sandbox.id = %id, error = sentence(&error), "what a removed sandbox reached is left");
        }
    }
}
