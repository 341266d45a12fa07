use super::CatalogError;
use crate::network::{Secret, SecretName, SecretRecord};
use crate::owner::Owner;

/// Owners' secrets. Values are kept so that a copy of the database alone does not tell them.
pub trait SecretCatalog: Send + Sync {
    /// Makes or replaces a secret; the time of its making stays. Durable when it returns.
    fn put_secret(&self, owner: &Owner, secret: &Secret) -> Result<(), CatalogError>;

    /// Everybody who has one.
    fn owners_of_secrets(&self) -> Result<Vec<Owner>, CatalogError>;

    /// By name.
    fn secrets(&self, owner: &Owner) -> Result<Vec<SecretRecord>, CatalogError>;

    /// With its value; `None` when the owner has none of that name.
    fn secret(&self, owner: &Owner, name: &SecretName) -> Result<Option<Secret>, CatalogError>;

    /// Says whether there was one. Durable when it returns.
    fn remove_secret(&self, owner: &Owner, name: &SecretName) -> Result<bool, CatalogError>;
}
