//! Secrets: put into requests that leave sandboxes, and never told.

use ureq::http::Method;

use super::{Client, ClientError, quoted};
use crate::api::{PutSecret, Secret, SecretList};

impl Client {
    /// Makes or replaces a secret.
    pub fn put_secret(&self, name: &str, body: &PutSecret) -> Result<Secret, ClientError> {
        self.ask(Method::PUT, &format!("/v1/secrets/{}", quoted(name)), Some(body), &[])
    }

    /// Without their values.
    pub fn secrets(&self) -> Result<SecretList, ClientError> {
        self.get("/v1/secrets")
    }

    pub fn secret(&self, name: &str) -> Result<Secret, ClientError> {
        self.get(&format!("/v1/secrets/{}", quoted(name)))
    }

    pub fn remove_secret(&self, name: &str) -> Result<(), ClientError> {
        self.delete(&format!("/v1/secrets/{}", quoted(name)))
    }
}
