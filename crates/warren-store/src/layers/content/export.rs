//! Writes states and histories in formats that others read.

mod git;
mod history;
mod patch;
mod state;
mod tar;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use warren_core::{Export, LayerError, RootTree};

use super::failure;
use crate::layers::LayerDirectory;

pub(super) fn export(
    store: &LayerDirectory,
    root: &[RootTree],
    what: &Export<'_>,
    to: &mut dyn Write,
) -> Result<(), LayerError> {
    match what {
        Export::Tar { stack, below } => state::export(store, root, stack, below, to)?,
        Export::Patch { from, to: until, below, leave_out } => {
            patch::export(store, root, (from, until), below, leave_out, to)?;
        }
        Export::History { template, snapshots } => history::export(store, template, snapshots, to)?,
    }
    to.flush().map_err(writing)
}

/// The bytes that an export will have, if they are counted in time. Nobody needs to know it of a
/// patch, for which files would have to be compared.
pub(super) fn size(
    store: &LayerDirectory,
    root: &[RootTree],
    what: &Export<'_>,
    patience: Duration,
) -> Result<Option<u64>, LayerError> {
    let until = Instant::now() + patience;
    match what {
        Export::Tar { stack, below } => state::size(store, root, stack, below, until),
        Export::Patch { .. } => Ok(None),
        Export::History { template, snapshots } => history::size(store, template, snapshots, until),
    }
}

fn writing(error: io::Error) -> LayerError {
    failure::io("write the export")(error)
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
