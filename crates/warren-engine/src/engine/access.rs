//! The engine as one caller reaches it: [`Engine::as_`] gives an [`Access`], and that the handles
//! of what the caller's owner has. A handle knows who asks, so nothing that it does can be put down
//! to somebody else.

use std::sync::Arc;

use warren_core::{Caller, Owner, SandboxId, SessionId};

use super::Engine;
use crate::EngineError;
use crate::bounds::{Place, Room};
use crate::work_kind::WorkKind;

/// The engine in the hands of one caller.
#[derive(Debug, Clone)]
pub struct Access {
    pub(crate) engine: Engine,
    pub(crate) caller: Arc<Caller>,
}

/// One sandbox of the caller's owner. It may not exist: every call checks.
#[derive(Debug, Clone)]
pub struct Sandbox {
    pub(crate) engine: Engine,
    pub(crate) caller: Arc<Caller>,
    pub(crate) id: SandboxId,
}

/// One session of the caller's owner.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) engine: Engine,
    pub(crate) caller: Arc<Caller>,
    pub(crate) id: SessionId,
}

impl Engine {
    /// The engine for this caller: everything that belongs to an owner is reached through here.
    pub fn as_(&self, caller: &Caller) -> Access {
        Access { engine: self.clone(), caller: Arc::new(caller.clone()) }
    }

    /// The engine at its own work on an owner's things.
    pub(crate) fn itself(&self, owner: &Owner) -> Access {
        Access { engine: self.inner(), caller: Arc::new(Caller::engine(owner)) }
    }
}

impl Access {
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    pub fn owner(&self) -> &Owner {
        &self.caller.owner
    }

    /// A place for heavy work. To be taken before anything is read or prepared.
    pub async fn place_for(&self, kind: WorkKind) -> Result<Place, EngineError> {
        self.engine.place_for(self.owner(), kind).await
    }

    /// Memory for program output up to so many bytes, to be held until it is answered. `None`: so
    /// little needs no permission.
    pub fn room_for(&self, bytes: usize) -> Result<Option<Room>, EngineError> {
        self.engine.shared.heavy_work.room_for(self.owner(), bytes)
    }

    pub fn sandbox(&self, id: &SandboxId) -> Sandbox {
        Sandbox { engine: self.engine.clone(), caller: Arc::clone(&self.caller), id: id.clone() }
    }

    pub fn session(&self, id: &SessionId) -> Session {
        Session { engine: self.engine.clone(), caller: Arc::clone(&self.caller), id: id.clone() }
    }
}

impl Sandbox {
    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    pub fn owner(&self) -> &Owner {
        &self.caller.owner
    }
}

impl Session {
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    pub fn owner(&self) -> &Owner {
        &self.caller.owner
    }

    /// The engine as this session's caller reaches it.
    pub(crate) fn access(&self) -> Access {
        Access { engine: self.engine.clone(), caller: Arc::clone(&self.caller) }
    }
}

#[cfg(test)]
impl Engine {
    /// The engine as an owner of the tests reaches it.
    pub(crate) fn of(&self, owner: &Owner) -> Access {
        self.as_(&Caller::new(owner.clone(), "tester"))
    }
}
