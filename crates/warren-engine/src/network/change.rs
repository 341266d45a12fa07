//! Changing where a sandbox may go.

use warren_core::network::{Grant, GrantEffect};
use warren_core::{NetworkPolicy, NetworkRule, NetworkUsage, SandboxId, SandboxRecord};

use super::NetworkView;
use crate::cell::{NetworkChange, Task};
use crate::error::Field;
use crate::ports::{blocking, finished};
use crate::state::Known;
use crate::{Engine, EngineError, Sandbox};

/// Longest that a grant for a while lasts.
const MOST_FOR_MS: u64 = 366 * 86_400_000;

/// Where a sandbox may go, and what it did with that.
#[derive(Debug, Clone)]
pub struct SandboxNetwork {
    pub(crate) sandbox: Sandbox,
}

impl Sandbox {
    pub fn network(&self) -> SandboxNetwork {
        SandboxNetwork { sandbox: self.clone() }
    }
}

impl SandboxNetwork {
    /// Where a sandbox may go, and how much it went there.
    pub async fn view(&self) -> Result<NetworkView, EngineError> {
        let record = self.sandbox.record().await?;
        Ok(self.sandbox.engine.view_network(record).await)
    }

    /// Looks at what the sandbox was seen to do, if anything is known.
    pub(super) fn known<R>(&self, look: impl FnOnce(&mut Known) -> R) -> Option<R> {
        self.sandbox.engine.shared.sightings.of(&self.sandbox.id, look)
    }

    /// Replaces the policy; what was granted is forgotten. What stays allowed goes on, what does
    /// not is cut. A sandbox that does not run has it from its next start.
    pub async fn set(&self, policy: NetworkPolicy) -> Result<NetworkView, EngineError> {
        self.sandbox.engine.may_change()?;
        self.sandbox.engine.check_policy(&policy)?;
        self.sandbox.engine.check_secrets(self.sandbox.owner(), &policy).await?;
        self.change(NetworkChange::Replace(policy)).await
    }

    /// Opens something, perhaps for a while.
    pub async fn allow(
        &self,
        rules: Vec<NetworkRule>,
        for_ms: Option<u64>,
    ) -> Result<NetworkView, EngineError> {
        self.grant(rules, GrantEffect::Allow, for_ms).await
    }

    /// Closes something, perhaps for a while.
    pub async fn deny(
        &self,
        rules: Vec<NetworkRule>,
        for_ms: Option<u64>,
    ) -> Result<NetworkView, EngineError> {
        self.grant(rules, GrantEffect::Deny, for_ms).await
    }

    async fn grant(
        &self,
        rules: Vec<NetworkRule>,
        effect: GrantEffect,
        for_ms: Option<u64>,
    ) -> Result<NetworkView, EngineError> {
        self.sandbox.engine.may_change()?;
        if rules.is_empty() {
            return Err(EngineError::reason(Field::NetworkRules, "name at least one host or network"));
        }
        let (until_unix_ms, by) = (self.sandbox.engine.until(for_ms), self.sandbox.caller.name.clone());
        let grants =
            rules.into_iter().map(|rule| Grant { rule, effect, until_unix_ms, by: by.to_owned() }).collect();
        self.change(NetworkChange::Grant(grants)).await
    }

    pub(super) async fn change(&self, change: NetworkChange) -> Result<NetworkView, EngineError> {
        self.raise(&change).await?;
        let by = self.sandbox.caller.name.clone();
        let record = self
            .sandbox
            .engine
            .ask(self.sandbox.owner(), &self.sandbox.id, Task::Network { change, by })
            .await?;
        Ok(self.sandbox.engine.view_network(record).await)
    }
}

impl SandboxNetwork {
    /// A sandbox that may reach more gets the wall that the rules ask for first.
    async fn raise(&self, change: &NetworkChange) -> Result<(), EngineError> {
        let Sandbox { engine, caller, id } = &self.sandbox;
        if engine.shared.settings.walls.raise_when.is_empty() {
            return Ok(());
        }
        let record = self.sandbox.record().await?;
        let now_unix_ms = engine.shared.parts.clock.unix_ms();
        let after = change.clone().apply(&record.spec.network, now_unix_ms)?;
        if after == record.spec.network {
            return Ok(());
        }
        // What would be refused afterwards must not end its processes.
        engine.check_change(&record, &after)?;
        let (engine, caller, id) = (engine.clone(), caller.clone(), id.clone());
        finished(async move { engine.raise_wall(&caller, &id, &after).await }).await
    }
}

impl Engine {
    /// When a grant that is given now is over.
    pub(super) fn until(&self, for_ms: Option<u64>) -> Option<u64> {
        let now_unix_ms = self.shared.parts.clock.unix_ms();
        for_ms.map(|for_ms| now_unix_ms.saturating_add(for_ms.min(MOST_FOR_MS)))
    }

    async fn view_network(&self, record: SandboxRecord) -> NetworkView {
        let usage = match record.addresses.is_empty() {
            true => None,
            false => self.link_usage(&record.id).await,
        };
        let pending = self.shared.sightings.of(&record.id, |known| known.asks.len()).unwrap_or_default();
        NetworkView { policy: record.spec.network, addresses: record.addresses, usage, pending }
    }

    /// The traffic of a sandbox's link; `None` when it has none.
    pub(crate) async fn link_usage(&self, id: &SandboxId) -> Option<NetworkUsage> {
        let (networks, id) = (self.shared.parts.networks.clone(), id.clone());
        blocking(move || networks.usage(&id)).await
    }

    /// The traffic of all links since the engine started, removed ones included.
    pub async fn network_totals(&self) -> NetworkUsage {
        let mut total = self.shared.figures.ended_links();
        let (networks, cells) = (self.shared.parts.networks.clone(), self.shared.registry.all());
        let alive = blocking(move || {
            cells.iter().filter_map(|cell| networks.usage(&cell.id)).collect::<Vec<NetworkUsage>>()
        });
        alive.await.iter().for_each(|usage| total.add(usage));
        total
    }
}
