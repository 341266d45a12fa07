use warren_core::Owner;
use warren_core::catalog::{CatalogError, SecretCatalog};
use warren_core::network::{Secret, SecretName, SecretRecord};

use super::MemoryCatalog;

impl SecretCatalog for MemoryCatalog {
    fn put_secret(&self, owner: &Owner, secret: &Secret) -> Result<(), CatalogError> {
        let mut records = self.enter("put_secret")?;
        secret.validate().expect("a secret that is kept is valid");
        let mut secret = secret.clone();
        let place = (owner.clone(), secret.record.name.clone());
        if let Some(earlier) = records.secrets.get(&place) {
            secret.record.created_unix_ms = earlier.record.created_unix_ms;
        }
        records.secrets.insert(place, secret);
        Ok(())
    }

    fn owners_of_secrets(&self) -> Result<Vec<Owner>, CatalogError> {
        let records = self.enter("owners_of_secrets")?;
        let mut owners: Vec<Owner> = records.secrets.keys().map(|(owner, _)| owner.clone()).collect();
        owners.dedup();
        Ok(owners)
    }

    fn secrets(&self, owner: &Owner) -> Result<Vec<SecretRecord>, CatalogError> {
        let records = self.enter("secrets")?;
        let own = records.secrets.iter().filter(|((whose, _), _)| whose == owner);
        Ok(own.map(|(_, secret)| secret.record.clone()).collect())
    }

    fn secret(&self, owner: &Owner, name: &SecretName) -> Result<Option<Secret>, CatalogError> {
        Ok(self.enter("secret")?.secrets.get(&(owner.clone(), name.clone())).cloned())
    }

    fn remove_secret(&self, owner: &Owner, name: &SecretName) -> Result<bool, CatalogError> {
        Ok(self.enter("remove_secret")?.secrets.remove(&(owner.clone(), name.clone())).is_some())
    }
}
