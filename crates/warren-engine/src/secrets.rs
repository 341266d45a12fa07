//! Owners' secrets: kept by name, shown to nobody, and put into requests by the network.

mod nameless;

use warren_core::Event;
use warren_core::network::{Secret, SecretName, SecretRecord};

use crate::error::{Field, Wording};
use crate::{Access, EngineError, Missing};

/// How many an owner may have.
const MOST: usize = 256;

/// The beginning of names that the engine has chosen.
const NAMELESS: &str = "nameless-";

/// The secrets of the caller's owner.
#[derive(Debug, Clone)]
pub struct Secrets {
    pub(crate) access: Access,
}

impl Access {
    pub fn secrets(&self) -> Secrets {
        Secrets { access: self.clone() }
    }
}

impl Secrets {
    /// Makes or replaces a secret. Sandboxes whose policies name it use the new value from their
    /// next request on. The times in its record are the engine's to say.
    pub async fn put(&self, mut secret: Secret) -> Result<SecretRecord, EngineError> {
        self.access.engine.may_change()?;
        secret
            .validate()
            .map_err(|error| EngineError::invalid(error.field(), Wording::Named(error.to_string())))?;
        if secret.record.name.as_str().starts_with(NAMELESS) || secret.record.is_nameless() {
            let message = format!("names that begin with `{NAMELESS}` are the server's own");
            return Err(EngineError::invalid(Field::SecretName, message));
        }
        let now_unix_ms = self.access.engine.shared.parts.clock.unix_ms();
        secret.record.created_unix_ms = now_unix_ms;
        secret.record.changed_unix_ms = now_unix_ms;
        let (whose, name) = (self.access.owner().clone(), secret.record.name.clone());
        let kept = self.access.engine.catalog(move |catalog| {
            let mut known = catalog.secrets(&whose)?;
            known.retain(|record| !record.is_nameless());
            if known.len() >= MOST && known.iter().all(|record| record.name != secret.record.name) {
                let message = format!("there are {MOST} secrets, and no more may be: remove one");
                return Err(EngineError::invalid(Field::SecretName, message));
            }
            catalog.put_secret(&whose, &secret)?;
            Ok(catalog.secrets(&whose)?)
        });
        let kept = kept.await?.into_iter().find(|record| record.name == name);
        let record = kept.ok_or_else(|| missing(&name))?;
        self.access.events().add(Event::SecretChanged { secret: name });
        Ok(record)
    }

    /// By name, without their values.
    pub async fn list(&self) -> Result<Vec<SecretRecord>, EngineError> {
        let owner = self.access.owner().clone();
        let mut known = self.access.engine.catalog(move |catalog| catalog.secrets(&owner)).await?;
        known.retain(|record| !record.is_nameless());
        Ok(known)
    }

    /// All about one but its value.
    pub async fn get(&self, name: &SecretName) -> Result<SecretRecord, EngineError> {
        let found = self.list().await?.into_iter().find(|record| record.name == *name);
        found.ok_or_else(|| missing(name))
    }

    /// It is put into no further request. Policies may go on naming it, to no effect.
    pub async fn remove(&self, name: &SecretName) -> Result<(), EngineError> {
        self.access.engine.may_change()?;
        self.get(name).await?;
        let (whose, which) = (self.access.owner().clone(), name.clone());
        if !self.access.engine.catalog(move |catalog| catalog.remove_secret(&whose, &which)).await? {
            return Err(missing(name));
        }
        self.access.events().add(Event::SecretRemoved { secret: name.clone() });
        Ok(())
    }
}

fn missing(name: &SecretName) -> EngineError {
    EngineError::NotFound { what: Missing::Secret, id: name.to_string() }
}
