//! A catalog in memory, and the conformance suite of all catalogs.

mod conformance;
mod memory;
mod records;

pub use conformance::catalog_conformance;
pub use memory::MemoryCatalog;
pub use records::{
    sample_entry, sample_image, sample_key, sample_node, sample_sandbox, sample_secret, sample_session,
    sample_snapshot,
};
