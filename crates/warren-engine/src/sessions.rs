//! Sessions: a client's lease on a sandbox, from [`Sessions::acquire`] to its end.
//!
//! [`warren_core::decide_session`] is the table of what may be asked of a session in which state.
//! For the sandbox that means:
//!
//! | request   | the session's sandbox |
//! |-----------|-----------------------|
//! | acquire   | is the preferred one if it fits, made to run if it does not; else a fresh one |
//! | attach    | is made to run |
//! | detach    | is left alone; stopped with its files kept after the session's `detached` time |
//! | suspend   | is frozen; denied while another active session holds it |
//! | resume    | is made to run, from its kept files if it had ended |
//! | think     | does not count as idle for a while |
//! | release   | is stopped with its files kept, or destroyed |
//! | expire    | is stopped as it was told to be when its time is over |
//! | terminate | is destroyed with its files, and all its sessions end |
//!
//! A sandbox that another open session holds is not stopped by a detach, release or expiry.
//!
//! The other way round, a sandbox that ends takes its sessions along: they expire if its files
//! stay, and can be resumed; else they are terminated.

mod abilities;
mod acquire;
mod attach;
mod change;
mod fits;
mod sweep;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use warren_core::catalog::SessionFilter;
use warren_core::{
    ByteSize, Event, Owner, Page, PageRequest, RunLimits, SandboxId, SandboxRecord, SandboxWord, SessionId,
    SessionRecord, Timeouts,
};

pub use self::abilities::Abilities;
pub(crate) use self::change::not_found_or;
use crate::{Access, Engine, EngineError, Missing, NewSandbox, Sandboxes, Session};

/// A request for a session with a sandbox.
#[derive(Debug, Clone)]
pub struct Acquire {
    pub client: String,
    pub sandbox: NewSandbox,
    /// Attach to this one if it exists and fits, unless `fresh`.
    pub preferred: Option<SandboxWord>,
    pub fresh: bool,
    pub required: Requirements,
    /// A named backend serves, or it is an error.
    pub backend: Option<String>,
    pub timeouts: Option<Timeouts>,
    /// Present: the session is one of an agent with limited runs, and ends after
    /// `limits.duration_s`.
    pub limits: Option<RunLimits>,
    /// Take the limits of this class of customers; an unknown one is an error.
    pub tier: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    /// Answer the session at once, and make its sandbox in the background.
    pub background: bool,
    pub idempotency: Option<Expected>,
}

impl Acquire {
    /// A session with a sandbox like this one, and no further wishes.
    pub fn new(client: impl Into<String>, sandbox: NewSandbox) -> Self {
        Self {
            client: client.into(),
            sandbox,
            preferred: None,
            fresh: false,
            required: Requirements::default(),
            backend: None,
            timeouts: None,
            limits: None,
            tier: None,
            labels: BTreeMap::new(),
            metadata: BTreeMap::new(),
            background: false,
            idempotency: None,
        }
    }
}

/// A create that may be repeated.
#[derive(Debug, Clone)]
pub struct Expected {
    pub key: String,
    /// Of the request's body.
    pub fingerprint: String,
}

/// Requirements on the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements {
    pub network: bool,
    pub write_access: bool,
    pub memory: Option<ByteSize>,
    pub readable: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
    /// Labels that a preferred sandbox must have; a fresh one gets them.
    pub labels: BTreeMap<String, String>,
}

/// A session with its sandbox.
#[derive(Debug, Clone)]
pub struct Acquired {
    pub session: SessionRecord,
    pub sandbox: SandboxRecord,
    /// The sandbox was made for this call.
    pub fresh: bool,
    /// An earlier call with the same idempotency key made it.
    pub repeated: bool,
}

/// A request to join a sandbox.
#[derive(Debug, Clone)]
pub struct Attach {
    pub sandbox: SandboxWord,
    pub client: String,
    /// Make one of this if there is no such sandbox any more.
    pub create_if_missing: Option<NewSandbox>,
    pub timeouts: Option<Timeouts>,
}

/// How the sandbox of a released session ends, if no other session holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// It is stopped and its files stay.
    KeepAlive,
    Destroy,
}

/// A session and where its sandbox stands.
#[derive(Debug, Clone)]
pub struct SessionView {
    pub session: SessionRecord,
    /// Absent once the sandbox's record is forgotten.
    pub sandbox: Option<SandboxRecord>,
}

impl Session {
    /// A session and its sandbox, whatever their state.
    pub async fn view(&self) -> Result<SessionView, EngineError> {
        let session = self.engine.session_record(self.owner(), &self.id).await?;
        let sandbox = match self.access().sandbox(&session.sandbox).record().await {
            Ok(sandbox) => Some(sandbox),
            Err(EngineError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(SessionView { session, sandbox })
    }
}

/// The sessions of the caller's owner.
#[derive(Debug, Clone)]
pub struct Sessions {
    pub(crate) access: Access,
}

impl Access {
    pub fn sessions(&self) -> Sessions {
        Sessions { access: self.clone() }
    }
}

impl Sessions {
    /// The owner's sessions, the newest first: of a sandbox, of a client, or all.
    pub async fn list(
        &self,
        filter: &SessionFilter,
        page: &PageRequest,
    ) -> Result<Page<SessionRecord>, EngineError> {
        let (owner, filter, page) = (self.access.owner().clone(), filter.clone(), page.clone());
        Ok(self.access.engine.catalog(move |catalog| catalog.sessions(&owner, &filter, &page)).await?)
    }
}

impl Sessions {
    /// How many snapshots there are of each of these sandboxes.
    pub async fn count_snapshots(
        &self,
        sandboxes: Vec<SandboxId>,
    ) -> Result<HashMap<SandboxId, u64>, EngineError> {
        let owner = self.access.owner().clone();
        let counted = self.access.engine.catalog(move |catalog| catalog.count_snapshots(&owner, &sandboxes));
        Ok(counted.await?)
    }
}

impl Sandboxes {
    /// The sandbox that the owner uses when none is named. One that ended for good is nobody's
    /// default any more.
    pub async fn default(&self) -> Result<SandboxRecord, EngineError> {
        let missing =
            || EngineError::NotFound { what: Missing::DefaultSandbox, id: self.access.owner().to_string() };
        let (engine, whose) = (&self.access.engine, self.access.owner().clone());
        let id = engine.catalog(move |catalog| catalog.default_sandbox(&whose)).await?.ok_or_else(missing)?;
        match self.access.sandbox(&id).record().await {
            Ok(sandbox) if sandbox.is_live() || sandbox.files_kept() => Ok(sandbox),
            Ok(_) | Err(EngineError::NotFound { .. }) => Err(missing()),
            Err(error) => Err(error),
        }
    }

    /// Sets the owner's default sandbox, or with `None` forgets it.
    pub async fn set_default(&self, id: Option<&SandboxId>) -> Result<(), EngineError> {
        self.access.engine.may_change()?;
        if let Some(id) = id {
            let sandbox = self.access.sandbox(id).record().await?;
            if !sandbox.is_live() && !sandbox.files_kept() {
                return Err(EngineError::SandboxEnded { id: id.clone(), detail: ended(&sandbox) });
            }
        }
        let (owner, id) = (self.access.owner().clone(), id.cloned());
        let engine = &self.access.engine;
        Ok(engine.catalog(move |catalog| catalog.set_default_sandbox(&owner, id.as_ref())).await?)
    }
}

impl Engine {
    pub(crate) async fn session_record(
        &self,
        owner: &Owner,
        id: &SessionId,
    ) -> Result<SessionRecord, EngineError> {
        let (owner, wanted) = (owner.clone(), id.clone());
        let session = self.catalog(move |catalog| catalog.session(&owner, &wanted)).await?;
        session.ok_or_else(|| EngineError::session_not_found(id))
    }

    /// Tells followers what happened to a session.
    pub(crate) fn tell(&self, session: &SessionRecord, event: Event) {
        self.emit(&session.owner, Some(&session.sandbox), Some(&session.id), event);
    }
}

/// How a sandbox ended, in a sentence.
fn ended(sandbox: &SandboxRecord) -> String {
    match &sandbox.death {
        Some(death) => death.detail.clone(),
        None => "it is being stopped".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
