//! Changes of where a sandbox may go, as its driver makes them.

use warren_core::network::{Grant, GrantEffect};
use warren_core::{NetworkPolicy, NetworkRule};

use crate::EngineError;
use crate::error::Field;

/// A change of a sandbox's network policy.
#[derive(Debug, Clone)]
pub(crate) enum NetworkChange {
    /// This policy and no other. Grants are forgotten.
    Replace(NetworkPolicy),
    Grant(Vec<Grant>),
    /// Grants that are over are forgotten.
    Expire,
}

impl NetworkChange {
    /// The policy after it.
    pub(crate) fn apply(
        self,
        policy: &NetworkPolicy,
        now_unix_ms: u64,
    ) -> Result<NetworkPolicy, EngineError> {
        match self {
            Self::Replace(next) => Ok(next.inherited()),
            Self::Expire => Ok(policy.current(now_unix_ms)),
            Self::Grant(grants) => grant(policy, grants, now_unix_ms),
        }
    }
}

fn grant(policy: &NetworkPolicy, grants: Vec<Grant>, now_unix_ms: u64) -> Result<NetworkPolicy, EngineError> {
    let wrong = |message: String| Err(EngineError::invalid(Field::NetworkRules, message));
    if policy.is_none() {
        return wrong("the sandbox has no network: its mode is `none`".to_owned());
    }
    let opened: Vec<NetworkRule> = opened_by(&grants).cloned().collect();
    let mut next = policy.granting(grants, now_unix_ms);
    for rule in &opened {
        if let Some(denial) = next.denials().find(|denial| denial.covers(rule)) {
            return wrong(format!("`{rule}` is closed by `{denial}`, which is denied; what is denied wins"));
        }
    }
    if next.is_open() {
        // What nobody denies is open already.
        next.grants.retain(|grant| grant.effect == GrantEffect::Deny);
    }
    Ok(next)
}

fn opened_by(grants: &[Grant]) -> impl Iterator<Item = &NetworkRule> {
    grants.iter().filter(|grant| grant.effect == GrantEffect::Allow).map(|grant| &grant.rule)
}

#[cfg(test)]
mod tests {
    use warren_core::NetworkMode;

    use super::*;

    fn change(effect: GrantEffect, rule: &str) -> NetworkChange {
        let rule = rule.parse().unwrap();
        NetworkChange::Grant(vec![Grant { rule, effect, until_unix_ms: Some(10), by: "me".to_owned() }])
    }

    #[test]
    fn an_open_mode_needs_no_grants_but_denials_can_be_taken_back() {
        let public = NetworkPolicy::public();
        assert_eq!(change(GrantEffect::Allow, "a.example").apply(&public, 0).unwrap(), public);
        let denied = change(GrantEffect::Deny, "a.example").apply(&public, 0).unwrap();
        assert_eq!(denied.grants.len(), 1);
        assert_eq!(change(GrantEffect::Allow, "a.example").apply(&denied, 0).unwrap(), public);
        assert_eq!(NetworkChange::Expire.apply(&denied, 10).unwrap(), public);
    }

    #[test]
    fn what_a_grant_cannot_do_is_said() {
        let mut policy = NetworkPolicy::of(NetworkMode::Allow);
        policy.deny = vec!["*.example".parse().unwrap()];
        for policy in [policy, NetworkPolicy::none()] {
            let error = change(GrantEffect::Allow, "a.example").apply(&policy, 0).unwrap_err();
            assert!(matches!(&error, EngineError::Invalid { field: Field::NetworkRules, .. }), "{error:?}");
        }
    }

    #[test]
    fn a_new_policy_forgets_grants() {
        let ask = NetworkPolicy::of(NetworkMode::Ask);
        let granted = change(GrantEffect::Allow, "a.example").apply(&ask, 0).unwrap();
        assert_ne!(granted, ask);
        assert_eq!(NetworkChange::Replace(granted.clone()).apply(&granted, 0).unwrap(), ask);
    }
}
