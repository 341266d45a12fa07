use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use warren_core::{IsolationError, IsolationErrorKind, RootTree, SandboxId, Sealed};

use super::Standing;
use super::book::{Book, Life, Sandbox};
use crate::delta::Delta;
use crate::layers::lower;

/// How long a fake sandbox is frozen for a seal.
const FROZEN: Duration = Duration::from_micros(500);

impl Book {
    pub(super) fn seal(
        &mut self,
        id: &SandboxId,
        into: &Path,
        below: &[RootTree],
    ) -> Result<Sealed, IsolationError> {
        let layers = Arc::clone(&self.layers);
        let (unmovable, key) = (self.unmovable, self.standing_key(id));
        let sandbox = self.touch(id, "seal")?;
        let mut shelf = layers.shelf();
        if shelf.is_taken(into) {
            shelf.violations.push(format!("seal of {id} into a place that is taken"));
            return Err(invalid(id, "there is something at the place"));
        }
        if shelf.files(&sandbox.root) != shelf.files(below) {
            shelf.violations.push(format!("seal of {id} on what it does not stand on"));
            return Err(invalid(id, "it stands on something else"));
        }
        if unmovable {
            return Ok(Sealed::Unmovable);
        }
        if sandbox.tree.is_pristine() {
            return Ok(Sealed::Unchanged);
        }
        let frozen = match &sandbox.life {
            Life::Dead | Life::Halted => Duration::ZERO,
            Life::Running { guest, .. } => match (guest.running(), guest.open_files()) {
                (0, 0) => FROZEN,
                (0, files) => return Ok(Sealed::Busy { reason: format!("{files} open files") }),
                (processes, _) => return Ok(Sealed::Busy { reason: format!("{processes} processes") }),
            },
        };
        if shelf.receive(into, || sandbox.tree.sink()).is_none() {
            shelf.violations.push(format!("seal of {id} into what is no place of a layer"));
            return Err(invalid(id, "it is no place of a layer"));
        }
        sandbox.root = below.to_vec();
        if let Some(tree) = sandbox.root.first_mut() {
            tree.lowers.insert(0, lower(into));
        }
        shelf.standing.insert(key, sandbox.root.clone());
        Ok(Sealed::Done { frozen })
    }

    /// Processes are not kept: who goes on begins anew.
    pub(super) fn suspend(&mut self, id: &SandboxId, into: &Path) -> Result<(), IsolationError> {
        let layers = Arc::clone(&self.layers);
        let sandbox = self.touch(id, "suspend")?;
        let mut shelf = layers.shelf();
        if sandbox.life.standing() != Standing::Running || !sandbox.spec.network.is_none() {
            shelf.violations.push(format!("suspend of {id}, which is {:?}", sandbox.life.standing()));
            return Err(invalid(id, "its processes cannot be put on disk"));
        }
        if shelf.is_taken(into) || shelf.receive(into, Delta::default).is_none() {
            shelf.violations.push(format!("suspend of {id} into what is no place of a layer"));
            return Err(invalid(id, "it is no place of a layer"));
        }
        drop(shelf);
        self.halt(id)
    }

    pub(super) fn is_untouched(&self, id: &SandboxId) -> bool {
        let untouched =
            |sandbox: &Sandbox| matches!(sandbox.life, Life::Running { .. }) && sandbox.tree.is_pristine();
        self.sandboxes.get(id).is_some_and(untouched)
    }

    pub(super) fn writable(&mut self, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
        let layers = Arc::clone(&self.layers);
        let tree = &self.touch(id, "writable")?.tree;
        layers.hand_out(id, tree).map_err(|error| {
            let action = format!("open the writable layers of {id}");
            IsolationError::caused(IsolationErrorKind::Host, action, error)
        })
    }

    pub(super) fn clear(&mut self, id: &SandboxId) -> Result<(), IsolationError> {
        let sandbox = self.touch(id, "clear")?;
        let standing = sandbox.life.standing();
        if standing == Standing::Halted {
            sandbox.tree.clear();
            return Ok(());
        }
        self.violations.push(format!("clear of {id}, which is {standing:?}"));
        Err(invalid(id, "it was not halted"))
    }
}

fn invalid(id: &SandboxId, why: &str) -> IsolationError {
    IsolationError::new(IsolationErrorKind::Invalid, format!("change the layers of {id}: {why}"))
}
