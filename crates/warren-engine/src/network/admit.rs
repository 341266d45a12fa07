//! Which policies may be had here.

use warren_core::{NetworkPolicy, Owner};

use crate::error::{Field, PolicyField, Wording};
use crate::{Engine, EngineError};

impl Engine {
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

    /// As [`Engine::check_policy`], for a sandbox that is to be made: nobody has granted it anything yet.
    pub(crate) fn check_first_policy(&self, policy: &NetworkPolicy) -> Result<(), EngineError> {
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

    /// Why no sandbox can have a link with this policy here, whatever its backend; `None` when it can.
    pub(crate) fn why_no_link(&self, policy: &NetworkPolicy) -> Option<String> {
        if policy.is_none() {
            return None;
        }
        let reason = self.shared.parts.networks.unavailable()?;
        Some(format!("no sandbox can have a network here: {reason}"))
    }
}
