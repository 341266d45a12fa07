//! What may be made here: a backend that can, limits within the server's, a network that may be
//! had, room on the disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use warren_core::{Field, Limits, Need, NetworkPolicy, Owner, RootKind, SandboxSpec, check_labels};

use crate::backend::Backend;
use crate::error::{PolicyField, Wording, sentence};
use crate::{Engine, EngineError};

impl Engine {
    /// The backend for a sandbox that is to be made, once all that can be known beforehand is
    /// checked.
    pub(crate) async fn admit(
        &self,
        owner: &Owner,
        spec: &SandboxSpec,
        disk_limit_required: bool,
        named: Option<&str>,
    ) -> Result<Arc<Backend>, EngineError> {
        self.check_spec(spec)?;
        self.check_first_policy(&spec.network)?;
        self.check_secrets(owner, &spec.network).await?;
        self.choose_backend(spec, disk_limit_required, named)
    }

    /// The backend for a spec: the named one, or the first that can.
    fn choose_backend(
        &self,
        spec: &SandboxSpec,
        disk_limit_required: bool,
        named: Option<&str>,
    ) -> Result<Arc<Backend>, EngineError> {
        // All that templates and snapshots are made of are layers.
        let needs = Need::of(spec, RootKind::Layers, disk_limit_required);
        let mut reasons = Vec::new();
        for backend in &self.shared.backends {
            if named.is_some_and(|named| named != backend.name()) {
                continue;
            }
            let refused = backend.port.capabilities().refuse(&needs).map(|refusal| refusal.to_string());
            match refused.or_else(|| self.why_no_link(&spec.network)) {
                None => return Ok(Arc::clone(backend)),
                Some(why) => reasons.push((backend.name().to_owned(), why)),
            }
        }
        if let (Some(named), true) = (named, reasons.is_empty()) {
            reasons.push((named.to_owned(), "there is no backend of that name here".to_owned()));
        }
        Err(EngineError::NothingFits(reasons))
    }

    /// Everything about a spec that can be judged without asking the host.
    fn check_spec(&self, spec: &SandboxSpec) -> Result<(), EngineError> {
        spec.validate()
            .map_err(|error| EngineError::invalid(error.field(), Wording::Named(error.to_string())))?;
        within(&spec.limits, &self.shared.settings.most_limits)
    }

    pub(crate) fn check_ttl(&self, ttl_s: u64) -> Result<(), EngineError> {
        let most = self.shared.settings.most_limits.lifetime_s;
        if (1..=most).contains(&ttl_s) {
            return Ok(());
        }
        Err(EngineError::invalid(
            Field::Lifetime,
            Wording::Predicate(format!("must be between 1 and {most}, got {ttl_s}")),
        ))
    }

    /// What a sandbox may reach that does not say.
    pub fn default_network(&self) -> NetworkPolicy {
        self.shared.settings.network.default.clone()
    }

    /// What is wrong with a policy, whatever sandbox it is for.
    pub(crate) fn check_policy(&self, policy: &NetworkPolicy) -> Result<(), EngineError> {
        let settings = &self.shared.settings.network;
        policy.validate(&settings.exceptions).map_err(|error| {
            EngineError::invalid(Field::Network(error.field), Wording::Reason(error.fault.to_string()))
        })?;
        match policy.limits.exceeds(&settings.most) {
            Some(limit) if !policy.is_none() => {
                let field = Field::Network(PolicyField::Limit(limit));
                Err(EngineError::invalid(
                    field,
                    Wording::Predicate("is more than is allowed here".to_owned()),
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// As [`Engine::check_policy`], for a sandbox that is to be made: nobody has granted it
    /// anything yet.
    fn check_first_policy(&self, policy: &NetworkPolicy) -> Result<(), EngineError> {
        if !policy.grants.is_empty() {
            let message = "a sandbox is made with rules; grants are given while it exists";
            return Err(EngineError::invalid(
                Field::Network(PolicyField::Grants),
                Wording::Reason(message.to_owned()),
            ));
        }
        self.check_policy(policy)
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
                Err(EngineError::invalid(Field::Network(PolicyField::Secrets), Wording::Reason(message)))
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
    check_labels(words).map_err(|reason| EngineError::invalid(field, Wording::Reason(reason.to_owned())))
}

/// Every limit is within what the server allows.
fn within(limits: &Limits, most: &Limits) -> Result<(), EngineError> {
    let checks = [
        (Field::Memory, limits.memory > most.memory, most.memory.to_string()),
        (Field::Cpus, limits.cpus > most.cpus, most.cpus.to_string()),
        (Field::Pids, limits.pids > most.pids, most.pids.to_string()),
        (Field::Disk, limits.disk > most.disk, most.disk.to_string()),
        (Field::Inodes, limits.inodes > most.inodes, most.inodes.to_string()),
        (Field::OpenFiles, limits.open_files > most.open_files, most.open_files.to_string()),
        (Field::Lifetime, limits.lifetime_s > most.lifetime_s, most.lifetime_s.to_string()),
    ];
    match checks.into_iter().find(|(_, exceeded, _)| *exceeded) {
        Some((field, _, most)) => Err(EngineError::invalid(
            field,
            Wording::Predicate(format!("is more than the {most} allowed here")),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use warren_core::ByteSize;

    use super::*;

    fn field(result: Result<(), EngineError>) -> Field {
        match result {
            Err(EngineError::Invalid { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn limits_over_the_servers_are_refused_by_name() {
        let most = Limits::default();
        assert!(within(&Limits::default(), &most).is_ok());
        let memory = Limits { memory: ByteSize(most.memory.0 + 1), ..Limits::default() };
        assert_eq!(field(within(&memory, &most)), Field::Memory);
        let long = Limits { lifetime_s: most.lifetime_s + 1, ..Limits::default() };
        assert_eq!(field(within(&long, &most)), Field::Lifetime);
    }
}
