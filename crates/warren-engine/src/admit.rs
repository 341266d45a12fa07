//! Checks that need no sandbox: time to live, network policies, secrets, room on the disk, labels.

use std::collections::BTreeMap;

use warren_core::{Field, NetworkPolicy, Owner, SandboxRecord, check_labels};

use crate::error::{PolicyField, sentence};
use crate::ports::Backend;
use crate::{Engine, EngineError};

impl Engine {
    pub(crate) fn check_ttl(&self, ttl_s: u64) -> Result<(), EngineError> {
        check_range(Field::Lifetime, ttl_s, self.shared.settings.most_limits.lifetime_s)
    }

    /// The network policy of a sandbox that names none.
    pub fn default_network(&self) -> NetworkPolicy {
        self.shared.settings.network.default.clone()
    }

    /// Refuses a policy that no sandbox may have.
    pub(crate) fn check_policy(&self, policy: &NetworkPolicy) -> Result<(), EngineError> {
        let settings = &self.shared.settings.network;
        policy
            .validate(&settings.exceptions)
            .map_err(|error| EngineError::reason(Field::Network(error.field), error.fault.to_string()))?;
        match policy.limits.exceeds(&settings.most) {
            Some(limit) if !policy.is_none() => {
                let field = Field::Network(PolicyField::Limit(limit));
                Err(EngineError::predicate(field, "is more than is allowed here"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses a policy that a sandbox cannot get, whatever its wall.
    pub(crate) fn check_change(
        &self,
        record: &SandboxRecord,
        new: &NetworkPolicy,
    ) -> Result<(), EngineError> {
        self.check_policy(new)?;
        if record.is_live() && record.spec.network.is_none() && !new.is_none() {
            let message = "the sandbox was started without a network, and gets one only when it is started: \
                           stop it, set the mode, and resume it";
            return Err(EngineError::reason(Field::Network(PolicyField::Mode), message));
        }
        Ok(())
    }

    /// Every secret that a policy names is one of the owner's.
    pub(crate) async fn check_secrets(
        &self,
        owner: &Owner,
        policy: &NetworkPolicy,
    ) -> Result<(), EngineError> {
        if policy.secrets.is_empty() {
            return Ok(());
        }
        let whose = owner.clone();
        let known = self.catalog(move |catalog| catalog.secrets(&whose)).await?;
        match policy.secrets.iter().find(|name| known.iter().all(|secret| secret.name != **name)) {
            Some(missing) => {
                let message = format!("there is no secret `{missing}`");
                Err(EngineError::reason(Field::Network(PolicyField::Secrets), message))
            }
            None => Ok(()),
        }
    }

    /// Why no sandbox can have a link with this policy here, whatever its backend; `None` when it
    /// can.
    pub(crate) fn why_no_link(&self, policy: &NetworkPolicy) -> Option<String> {
        if policy.is_none() {
            return None;
        }
        let reason = self.shared.parts.networks.unavailable()?;
        Some(format!("no sandbox can have a network here: {reason}"))
    }

    /// Refuses new work before the disk that holds layers is full. Blocks.
    pub fn check_disk(&self) -> Result<(), EngineError> {
        let mut layered = self.shared.backends.iter().filter(|backend| backend.port.layered().is_some());
        layered.try_for_each(|backend| self.check_disk_of(backend))
    }

    /// Refuses new work before the disk of a backend is full. Blocks.
    pub(crate) fn check_disk_of(&self, backend: &Backend) -> Result<(), EngineError> {
        let critical = self.shared.settings.disk.critical_bytes;
        match backend.port.space() {
            Ok(Some(space)) if space.free_bytes < critical => {
                Err(EngineError::DiskLow { free_mib: space.free_bytes >> 20, critical_mib: critical >> 20 })
            }
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::warn!(error = sentence(&error), "cannot see how much room the disk has");
                Err(EngineError::DiskLow { free_mib: 0, critical_mib: critical >> 20 })
            }
        }
    }
}

/// Labels and metadata are the owner's own, within the same bounds.
pub(crate) fn check_words(field: Field, words: &BTreeMap<String, String>) -> Result<(), EngineError> {
    check_labels(words).map_err(|reason| EngineError::reason(field, reason))
}

/// The value is between one and the most.
pub(crate) fn check_range(field: Field, got: u64, most: u64) -> Result<(), EngineError> {
    if (1..=most).contains(&got) {
        return Ok(());
    }
    Err(EngineError::predicate(field, format!("must be between 1 and {most}, got {got}")))
}

/// The text has between one and `most` characters, none of them a control character and not all of
/// them blank. `what` is the word for such characters.
pub(crate) fn check_visible(field: Field, text: &str, most: usize, what: &str) -> Result<(), EngineError> {
    let count = text.chars().count();
    if (1..=most).contains(&count) && !text.trim().is_empty() && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(EngineError::predicate(field, format!("takes 1 to {most} {what} characters")))
}
