//! The catalog on SQLite, as the engine uses it and as a machine treats it.

mod crash;
mod full;
mod golden;
mod many;
mod refusals;
mod secrets;
mod sharing;
mod upgrade;

use std::ops::Deref;

use tempfile::TempDir;
use warren_core::catalog::{NewRecords, SandboxCatalog as _};
use warren_core::{Owner, SandboxRecord};
use warren_store::SqliteCatalog;
use warren_testkit::{catalog_conformance, sample_sandbox, sample_session};

struct TestCatalog {
    catalog: SqliteCatalog,
    _data: TempDir,
}

impl TestCatalog {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        Self { catalog: SqliteCatalog::open(data.path()).unwrap(), _data: data }
    }
}

impl Deref for TestCatalog {
    type Target = SqliteCatalog;

    fn deref(&self) -> &SqliteCatalog {
        &self.catalog
    }
}

fn new(number: u32) -> NewRecords {
    let sandbox = sample_sandbox(&Owner::first(), number);
    let session = sample_session(&sandbox, number);
    NewRecords { sandbox, session, idempotency: None }
}

fn insert(catalog: &SqliteCatalog, number: u32) -> SandboxRecord {
    let new = new(number);
    catalog.insert(new.clone()).unwrap();
    new.sandbox
}

#[test]
fn it_is_a_catalog() {
    catalog_conformance(TestCatalog::new);
}
