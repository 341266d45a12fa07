//! The abilities of a sandbox, and those that are required of it.

use std::path::{Path, PathBuf};

use warren_core::{IsolationKind, MountAccess, Owner, Request, SandboxId, SandboxRecord, SandboxSpec};
use warren_wire::guest::{EntryKind, FileCall, FileOperation};

use super::fits::{self, SYSTEM};
use crate::base::places;
use crate::error::Field;
use crate::guest::Guest;
use crate::ports::blocking;
use crate::{Acquired, Engine, EngineError, Requirements, Sessions, StoppedFiles};

/// The places of a sandbox and the wall around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    /// Absent: its backend is not here any more.
    pub isolation: Option<IsolationKind>,
    pub can_write: bool,
    /// Roots of what can be read, and of what can be written. The deepest one that holds a path
    /// decides.
    pub readable: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
}

impl Sessions {
    pub async fn abilities(&self, sandbox: &SandboxRecord) -> Result<Abilities, EngineError> {
        let engine = &self.access.engine;
        let backend = engine.shared.backends.iter().find(|backend| backend.name() == sandbox.backend);
        let isolation = backend.map(|backend| backend.port.capabilities().isolation);
        let places = engine.places(&sandbox.spec).await?;
        let only = |wanted: MountAccess| places.iter().filter(move |(_, access)| *access == wanted);
        let path = |(path, _): &(PathBuf, MountAccess)| path.clone();
        Ok(Abilities {
            isolation,
            can_write: only(MountAccess::ReadWrite).next().is_some(),
            writable: only(MountAccess::ReadWrite).map(path).collect(),
            readable: places.iter().map(path).collect(),
        })
    }
}

impl Engine {
    /// Every place of a sandbox that begins with a root or a mount of its own, by its path.
    async fn places(&self, spec: &SandboxSpec) -> Result<Vec<(PathBuf, MountAccess)>, EngineError> {
        let (templates, spec) = (self.shared.parts.templates.clone(), spec.clone());
        blocking(move || {
            let trees = places(templates.as_ref(), &spec)?.into_iter().map(|tree| (tree.at, tree.access));
            let mounts = spec.mounts.iter().map(|mount| (mount.target.clone(), mount.access));
            let system = SYSTEM.iter().map(|place| (PathBuf::from(place), MountAccess::ReadOnly));
            let mut places: Vec<_> = trees.chain(mounts).chain(system).collect();
            if !places.iter().any(|(path, _)| path == Path::new("/")) {
                places.push((PathBuf::from("/"), MountAccess::ReadWrite));
            }
            places.sort_by(|(one, _), (two, _)| one.cmp(two));
            Ok(places)
        })
        .await
    }

    /// Which required path cannot be read in a sandbox, which is made to run for that; `None` when
    /// all can.
    pub(super) async fn unreadable(
        &self,
        owner: &Owner,
        id: &SandboxId,
        required: &Requirements,
    ) -> Result<Option<String>, EngineError> {
        if required.readable.is_empty() {
            return Ok(None);
        }
        self.set_going(owner, id).await?;
        let guest = self.itself(owner).sandbox(id).guest(Request::ReadFiles).await?;
        for path in &required.readable {
            match read_some(&guest, path).await {
                Ok(()) => {}
                Err(EngineError::Refused(failure)) => {
                    return Ok(Some(fits::unreadable(path, &failure.message)));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// A fresh sandbox, if all can be read in it that must; otherwise it is ended again.
    pub(super) async fn with_readable(
        &self,
        owner: &Owner,
        made: Acquired,
        required: &Requirements,
    ) -> Result<Acquired, EngineError> {
        let id = &made.sandbox.id;
        let lack = match self.unreadable(owner, id, required).await {
            Ok(None) => return Ok(made),
            Ok(Some(reason)) => EngineError::invalid(Field::RequiredReadable, reason),
            Err(error) => error,
        };
        self.stop_by(&made.session.client, owner, id, StoppedFiles::Delete).await?;
        Err(lack)
    }
}

/// Reads a little, with the rights of the sandbox's own user.
async fn read_some(guest: &Guest, path: &Path) -> Result<(), EngineError> {
    let call = |operation| FileCall { user: None, operation, as_root: None };
    let found =
        guest.stat(call(FileOperation::Stat { path: path.into(), follow: true, detail: None })).await?;
    match found.kind {
        EntryKind::Directory => {
            let list = FileOperation::List { path: path.into(), depth: 1, detail: None };
            guest.entries(call(list)).await.map(drop)
        }
        EntryKind::File => {
            let read = FileOperation::Read { path: path.into(), offset: 0, length: Some(0) };
            guest.read(call(read)).await.map(drop)
        }
        _ => Ok(()),
    }
}
