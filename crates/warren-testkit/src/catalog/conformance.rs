mod events;
mod idempotency;
mod images;
mod journal;
mod keys;
mod names;
mod networks;
mod nodes;
mod ports;
mod sandboxes;
mod secrets;
mod sessions;
mod snapshots;

use std::ops::Deref;

use warren_core::catalog::{
    Catalog, CatalogError, CatalogErrorKind, Idempotency, InsertError, NewRecords, UpdateSessionError,
};
use warren_core::{NodeId, Owner};

use super::records::{sample_node, sample_sandbox, sample_session};

type Check = fn(&dyn Catalog);

const CHECKS: &[&[Check]] = &[
    nodes::CHECKS,
    sandboxes::CHECKS,
    names::CHECKS,
    sessions::CHECKS,
    snapshots::CHECKS,
    journal::CHECKS,
    idempotency::CHECKS,
    ports::CHECKS,
    networks::CHECKS,
    keys::CHECKS,
    secrets::CHECKS,
    images::CHECKS,
    events::CHECKS,
];

/// Shows that a catalog does what its ports say. Each check gets a new one, which has to be empty.
///
/// # Panics
///
/// If it does not.
pub fn catalog_conformance<H>(make: impl Fn() -> H)
where
    H: Deref,
    H::Target: Catalog + Sized,
{
    for check in CHECKS.iter().copied().flatten() {
        check(&*make());
    }
}

fn ann() -> Owner {
    "ann".parse().expect("an owner")
}

fn bob() -> Owner {
    "bob".parse().expect("an owner")
}

/// The node of the records that the checks insert, unless they say otherwise.
fn here() -> NodeId {
    sample_node()
}

/// A sandbox with its first session, both of that number.
fn new(owner: &Owner, number: u32) -> NewRecords {
    let sandbox = sample_sandbox(owner, number);
    let session = sample_session(&sandbox, number);
    NewRecords { sandbox, session, idempotency: None }
}

fn key(new: &NewRecords, word: &str, at_unix_ms: u64) -> Idempotency {
    Idempotency {
        owner: new.sandbox.owner.clone(),
        key: word.to_owned(),
        fingerprint: format!("print of {word}"),
        session: new.session.id.clone(),
        at_unix_ms,
    }
}

fn insert(catalog: &dyn Catalog, owner: &Owner, number: u32) -> NewRecords {
    let new = new(owner, number);
    catalog.insert(new.clone()).expect("it is new");
    new
}

/// The kind of an answer's error.
fn kind<T: std::fmt::Debug, E: Kind>(answer: Result<T, E>) -> CatalogErrorKind {
    answer.expect_err("it must not work").kind()
}

trait Kind: std::fmt::Debug {
    fn kind(&self) -> CatalogErrorKind;
}

impl Kind for CatalogError {
    fn kind(&self) -> CatalogErrorKind {
        self.kind
    }
}

impl Kind for InsertError {
    fn kind(&self) -> CatalogErrorKind {
        match self {
            Self::Catalog(error) => error.kind,
            Self::Repeated(earlier) => panic!("nothing was repeated: {earlier:?}"),
        }
    }
}

impl Kind for UpdateSessionError {
    fn kind(&self) -> CatalogErrorKind {
        match self {
            Self::Catalog(error) => error.kind,
            Self::Denied(reason) => panic!("nothing was denied: {reason:?}"),
        }
    }
}
