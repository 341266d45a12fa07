//! Paths that a patch or a merge passes over: those that the state's own `.gitignore` files name,
//! and those that the caller names. The files are a tenant's, and what is read of them is bounded.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use warren_core::{IgnoreError, Ignored, LayerError, LeaveOut, MOST_IGNORE_BYTES, RootTree, Stack};

use super::failure::{self, invalid};
use super::view::{Lookup, View};
use crate::layers::LayerDirectory;

const RULES: &str = ".gitignore";
const GIT: &str = ".git";

/// The state whose rules count, where rules are asked for.
pub(super) fn rules_of(
    store: &LayerDirectory,
    root: &[RootTree],
    stack: &Stack,
    leave_out: &LeaveOut,
) -> Result<Option<View>, LayerError> {
    if leave_out.ignored { View::open(store, root, stack).map(Some) } else { Ok(None) }
}

/// Tells which paths are passed over.
pub(super) struct LeftOut<'v> {
    /// The directory that patterns of the caller start from.
    below: PathBuf,
    patterns: Ignored,
    rules: Option<Rules<'v>>,
}

/// The rules of a state.
struct Rules<'v> {
    /// The directory of the project: rules of those above it do not count.
    top: PathBuf,
    lookup: Lookup<'v>,
    ignored: Ignored,
}

impl<'v> LeftOut<'v> {
    /// For what is below a directory. A project begins where git has its directory, or there.
    pub(super) fn new(
        view: Option<&'v View>,
        below: &Path,
        leave_out: &LeaveOut,
    ) -> Result<Self, LayerError> {
        let rules = match view {
            None => None,
            Some(view) => {
                let mut lookup = Lookup::new(view);
                let mut top = below.to_owned();
                for directory in below.ancestors() {
                    if lookup.find(&directory.join(GIT))?.is_some() {
                        top = directory.to_owned();
                        break;
                    }
                }
                Some(Rules { top, lookup, ignored: Ignored::new::<&str>(&[]) })
            }
        };
        Ok(Self { below: below.to_owned(), patterns: Ignored::new(&leave_out.patterns), rules })
    }

    /// Tells whether a path is passed over.
    pub(super) fn has(&mut self, path: &Path, is_directory: bool) -> Result<bool, LayerError> {
        let name = path.strip_prefix(&self.below).unwrap_or(path);
        // No pattern is about the directory that it starts from.
        let named = !name.as_os_str().is_empty()
            && self.patterns.is_ignored(name, is_directory, |_| Ok::<_, Refused>(Vec::new()))?;
        match &mut self.rules {
            _ if named => Ok(true),
            None => Ok(false),
            Some(rules) => rules.has(path, is_directory),
        }
    }
}

impl Rules<'_> {
    fn has(&mut self, path: &Path, is_directory: bool) -> Result<bool, LayerError> {
        let Self { top, lookup, ignored } = self;
        let Ok(name) = path.strip_prefix(&*top) else { return Ok(false) };
        let load = |directory: &Path| -> Result<Vec<Vec<u8>>, Refused> {
            let file = lookup.find(&top.join(directory).join(RULES)).map_err(Refused)?;
            let Some(file) = file.filter(|file| file.is_file()) else { return Ok(Vec::new()) };
            let mut text = Vec::new();
            let content = file.open().map_err(Refused)?;
            failure::Attentive(content)
                .take(MOST_IGNORE_BYTES as u64 + 1)
                .read_to_end(&mut text)
                .map_err(|error| Refused(failure::io("read a file of a layer")(error)))?;
            Ok(vec![text])
        };
        Ok(ignored.is_ignored(name, is_directory, load)?)
    }
}

/// An error on the way through the rules.
struct Refused(LayerError);

impl From<IgnoreError> for Refused {
    fn from(error: IgnoreError) -> Self {
        Self(invalid(error.to_string()))
    }
}

impl From<Refused> for LayerError {
    fn from(refused: Refused) -> Self {
        refused.0
    }
}
