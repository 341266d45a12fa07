//! Secrets that belong to policies. They are kept before the policy that names them is, and go when
//! none does any more: with the sandbox that they were made for, unless another was forked from it.
//! If the process ends in between, the sweep finds the rest.

use std::collections::HashSet;

use data_encoding::HEXLOWER;
use warren_core::catalog::{Catalog, CatalogError, SandboxFilter, SnapshotFilter};
use warren_core::network::{Injection, NetworkRule, Secret, SecretName, SecretRecord};
use warren_core::{Owner, PageRequest};

use super::NAMELESS;
use crate::error::{Field, Wording, sentence};
use crate::{Engine, EngineError, Secrets};

/// How many an owner may have.
const MOST: usize = 4096;

/// One that is younger may yet be named by a policy.
const GRACE_MS: u64 = 15 * 60_000;

/// Records that are read at a time.
const PAGE: u32 = 500;

impl Secrets {
    /// Keeps headers that are set in what is sent to these hosts, for a policy that is about to
    /// name them.
    pub async fn keep_transform(
        &self,
        hosts: Vec<NetworkRule>,
        headers: Vec<(String, String)>,
    ) -> Result<SecretName, EngineError> {
        self.access.engine.may_change()?;
        let (names, values): (Vec<String>, Vec<String>) = headers.into_iter().unzip();
        let now_unix_ms = self.access.engine.shared.parts.clock.unix_ms();
        let record = SecretRecord {
            name: self.access.engine.nameless()?,
            hosts,
            injection: Injection::Transform { headers: names },
            created_unix_ms: now_unix_ms,
            changed_unix_ms: now_unix_ms,
        };
        let name = record.name.clone();
        let secret = Secret { record, value: values.join("\n") };
        secret
            .validate()
            .map_err(|error| EngineError::invalid(error.field(), Wording::Named(error.to_string())))?;
        let owner = self.access.owner().clone();
        self.access
            .engine
            .catalog(move |catalog| {
                if nameless(catalog, &owner)?.len() >= MOST {
                    let message =
                        format!("headers are set for {MOST} hosts of sandboxes, and no more may be");
                    return Err(EngineError::invalid(Field::SecretHeaders, message));
                }
                Ok(catalog.put_secret(&owner, &secret)?)
            })
            .await?;
        Ok(name)
    }

    /// Removes those of these secrets that belong to policies and that none names any more. Costs
    /// nothing where there are none.
    pub async fn drop_transforms(&self, names: &[SecretName]) -> Result<(), EngineError> {
        let mut candidates: HashSet<SecretName> = names.iter().cloned().collect();
        candidates.retain(|name| name.as_str().starts_with(NAMELESS));
        if candidates.is_empty() {
            return Ok(());
        }
        let owner = self.access.owner().clone();
        self.access.engine.catalog(move |catalog| remove_unnamed(catalog, &owner, candidates)).await?;
        Ok(())
    }
}

impl Engine {
    /// Removes what no policy names, and none is about to.
    pub(crate) async fn sweep_nameless_secrets(&self) {
        let before = self.shared.parts.clock.unix_ms().saturating_sub(GRACE_MS);
        let swept = self.catalog(move |catalog| {
            for owner in catalog.owners_of_secrets()? {
                let old =
                    nameless(catalog, &owner)?.into_iter().filter(|record| record.created_unix_ms < before);
                let old: HashSet<SecretName> = old.map(|record| record.name).collect();
                remove_unnamed(catalog, &owner, old)?;
            }
            Ok::<_, CatalogError>(())
        });
        if let Err(error) = swept.await {
            self.fault();
            tracing::warn!(error = sentence(&error), "cannot remove secrets that no policy names");
        }
    }

    fn nameless(&self) -> Result<SecretName, EngineError> {
        let bits = HEXLOWER.encode(&self.shared.parts.random.bits());
        format!("{NAMELESS}{bits}").parse().map_err(|error: warren_core::network::SecretError| {
            EngineError::invalid(Field::SecretName, Wording::Named(error.to_string()))
        })
    }
}

fn nameless(catalog: &dyn Catalog, owner: &Owner) -> Result<Vec<SecretRecord>, CatalogError> {
    let mut records = catalog.secrets(owner)?;
    records.retain(SecretRecord::is_nameless);
    Ok(records)
}

fn remove_unnamed(
    catalog: &dyn Catalog,
    owner: &Owner,
    mut candidates: HashSet<SecretName>,
) -> Result<(), CatalogError> {
    if !candidates.is_empty() {
        spare_named(catalog, owner, &mut candidates)?;
    }
    for name in candidates {
        catalog.remove_secret(owner, &name)?;
    }
    Ok(())
}

/// Leaves those out that a sandbox or a snapshot names.
fn spare_named(
    catalog: &dyn Catalog,
    owner: &Owner,
    candidates: &mut HashSet<SecretName>,
) -> Result<(), CatalogError> {
    let mut page = PageRequest { limit: PAGE, after: None };
    loop {
        let found = catalog.sandboxes(owner, &SandboxFilter::default(), &page)?;
        for record in found.items.iter().filter(|record| record.is_live() || record.files_kept()) {
            candidates.retain(|name| !record.spec.network.secrets.contains(name));
        }
        let Some(next) = found.next else { break };
        page.after = Some(next);
    }
    let mut page = PageRequest { limit: PAGE, after: None };
    loop {
        let found = catalog.snapshots(owner, &SnapshotFilter::default(), &page)?;
        for record in &found.items {
            candidates.retain(|name| !record.spec.network.secrets.contains(name));
        }
        let Some(next) = found.next else { return Ok(()) };
        page.after = Some(next);
    }
}
