//! Changes of sessions that exist. Those that look at the other sessions of a sandbox before they
//! act on it take their turn at that sandbox, so that two who leave at once do not both leave it to
//! the other; and they go on when their caller goes away, so that nothing is left half done.

use warren_core::catalog::{Catalog, CatalogErrorKind, Durability, SessionFilter, UpdateSessionError};
use warren_core::{
    Deadline, Event, Owner, PageRequest, RunDenied, SandboxId, SessionId, SessionRecord, SessionRequest,
    SessionState, SessionVerdict, decide_session,
};

use crate::error::Field;
use crate::ports::finished;
use crate::{Engine, EngineError, Release, Session, SessionView, StoppedFiles};

/// The result of a change of a session.
pub(crate) struct Changed {
    pub(crate) session: SessionRecord,
    pub(crate) before: SessionState,
    /// False if nothing had to be written.
    pub(crate) written: bool,
}

impl Session {
    /// The client goes away. Its sandbox stays as it is until the session's `detached` time is
    /// over.
    pub async fn detach(&self) -> Result<SessionRecord, EngineError> {
        self.engine.may_change()?;
        let changed = self.engine.step(self.owner(), &self.id, SessionRequest::Detach).await?;
        if changed.written {
            self.engine.tell(&changed.session, Event::SessionDetached);
        }
        Ok(changed.session)
    }

    /// Freezes the sandbox until the session is resumed. Refused while another client uses the
    /// sandbox.
    pub async fn suspend(&self) -> Result<SessionView, EngineError> {
        finished(self.clone().suspend_now()).await
    }

    async fn suspend_now(self) -> Result<SessionView, EngineError> {
        self.engine.may_change()?;
        let session = self.engine.asked(self.owner(), &self.id, SessionRequest::Suspend).await?;
        let _turn = self.engine.shared.leases.turns.hold(session.sandbox.clone()).await;
        let others = self.engine.holders(self.owner(), &session.sandbox).await?;
        if others.iter().any(|other| other.id != self.id && other.state == SessionState::Active) {
            let advice = "another session uses its sandbox: detach instead";
            return Err(EngineError::SessionState { id: self.id.clone(), state: session.state, advice });
        }
        let sandbox = self.access().sandbox(&session.sandbox).pause().await?;
        let changed = self.engine.step(self.owner(), &self.id, SessionRequest::Suspend).await?;
        if changed.written {
            self.engine.tell(&changed.session, Event::SessionSuspended);
        }
        Ok(SessionView { session: changed.session, sandbox: Some(sandbox) })
    }

    /// Makes a detached, suspended or expired session active again, and its sandbox run.
    pub async fn resume(&self) -> Result<SessionView, EngineError> {
        finished(self.clone().resume_now()).await
    }

    async fn resume_now(self) -> Result<SessionView, EngineError> {
        self.engine.may_change()?;
        let session = self.engine.asked(self.owner(), &self.id, SessionRequest::Resume).await?;
        if session
            .deadline
            .as_ref()
            .is_some_and(|deadline| deadline.is_due(self.engine.shared.parts.clock.as_ref()))
        {
            let advice = "it lasted as long as it may: acquire another on the same sandbox";
            return Err(EngineError::SessionState { id: self.id.clone(), state: session.state, advice });
        }
        let _turn = self.engine.shared.leases.turns.hold(session.sandbox.clone()).await;
        self.engine.made(self.owner(), &session.sandbox).await?;
        self.engine.set_going(self.owner(), &session.sandbox).await?;
        let changed = self.engine.step(self.owner(), &self.id, SessionRequest::Resume).await?;
        let sandbox = self.engine.still_alive(self.owner(), &session.sandbox).await?;
        if changed.written {
            self.engine.tell(&changed.session, Event::SessionResumed);
        }
        Ok(SessionView { session: changed.session, sandbox: Some(sandbox) })
    }

    /// The client gives the session back. A sandbox that no other session holds is stopped, or
    /// destroyed with its files.
    pub async fn release(&self, release: Release) -> Result<SessionRecord, EngineError> {
        finished(self.clone().release_now(release)).await
    }

    async fn release_now(self, release: Release) -> Result<SessionRecord, EngineError> {
        self.engine.may_change()?;
        let session = self.engine.asked(self.owner(), &self.id, SessionRequest::Release).await?;
        let _turn = self.engine.shared.leases.turns.hold(session.sandbox.clone()).await;
        let changed = self.engine.step(self.owner(), &self.id, SessionRequest::Release).await?;
        if !changed.written {
            return Ok(changed.session);
        }
        if let Err(error) = self.engine.let_go(&changed.session, release).await {
            self.engine.change_back(&changed).await;
            return Err(error);
        }
        self.engine.tell(&changed.session, Event::SessionReleased);
        Ok(changed.session)
    }

    /// Ends the session, and its sandbox with all files even if others use it.
    pub async fn terminate(&self) -> Result<SessionRecord, EngineError> {
        finished(self.clone().terminate_now()).await
    }

    async fn terminate_now(self) -> Result<SessionRecord, EngineError> {
        self.engine.may_change()?;
        let session = self.engine.asked(self.owner(), &self.id, SessionRequest::Terminate).await?;
        if session.state == SessionState::Terminated {
            return Ok(session);
        }
        let _turn = self.engine.shared.leases.turns.hold(session.sandbox.clone()).await;
        // The sandbox's end ends its sessions; what follows is for a sandbox that had ended before.
        let by = self.caller.name.as_str();
        found(self.engine.stop_by(by, self.owner(), &session.sandbox, StoppedFiles::Delete).await)?;
        let changed = self.engine.step(self.owner(), &self.id, SessionRequest::Terminate).await?;
        if changed.written {
            self.engine.tell(&changed.session, Event::SessionTerminated { by: by.to_owned() });
        }
        Ok(changed.session)
    }

    /// The client's model works for up to `seconds`: the sandbox does not count as idle. Zero ends
    /// the lease.
    pub async fn think(&self, seconds: u64) -> Result<SessionRecord, EngineError> {
        self.engine.may_change()?;
        let most = self.engine.shared.settings.most_thinking_s;
        if seconds > most {
            let message = format!("a client may think for {most} s at a time, and then say so again");
            return Err(EngineError::invalid(Field::ThinkingTime, message));
        }
        let clock = self.engine.shared.parts.clock.clone();
        let changed = self
            .engine
            .change(self.owner(), &self.id, move |session| {
                permit(session, SessionRequest::Think)?;
                let until = (seconds > 0).then(|| Deadline::after(clock.as_ref(), seconds * 1000));
                session.thinking_until = until;
                session.last_activity_unix_ms = clock.unix_ms();
                Ok(true)
            })
            .await?;
        Ok(changed.session)
    }
}

impl Engine {
    /// Takes a session where the request leads, if anywhere.
    pub(crate) async fn step(
        &self,
        owner: &Owner,
        id: &SessionId,
        request: SessionRequest,
    ) -> Result<Changed, EngineError> {
        let clock = self.shared.parts.clock.clone();
        self.change(owner, id, move |session| {
            let next = permit(session, request)?;
            if let Some(next) = next {
                session.enter(next, clock.as_ref());
            }
            Ok(next.is_some())
        })
        .await
    }

    /// Only the node that holds a sandbox changes its sessions.
    pub(crate) async fn check_session(&self, owner: &Owner, id: &SessionId) -> Result<(), EngineError> {
        let (engine, owner, id) = (self.inner(), owner.clone(), id.clone());
        self.catalog(move |catalog| engine.check_session_in(catalog, &owner, &id)).await
    }

    /// Blocks.
    fn check_session_in(
        &self,
        catalog: &dyn Catalog,
        owner: &Owner,
        id: &SessionId,
    ) -> Result<(), EngineError> {
        let session = catalog.session(owner, id)?;
        let sandbox = session.map(|session| catalog.sandbox(owner, &session.sandbox)).transpose()?.flatten();
        sandbox.map_or(Ok(()), |sandbox| self.check_node(id, &sandbox.node))
    }

    /// Changes a session inside the catalog's transaction. The change says whether there is
    /// anything to be written.
    pub(crate) async fn change(
        &self,
        owner: &Owner,
        id: &SessionId,
        mut change: impl FnMut(&mut SessionRecord) -> Result<bool, EngineError> + Send + 'static,
    ) -> Result<Changed, EngineError> {
        let (engine, owner, id) = (self.inner(), owner.clone(), id.clone());
        self.catalog(move |catalog| {
            engine.check_session_in(catalog, &owner, &id)?;
            engine.change_in(catalog, &owner, &id, &mut change)
        })
        .await
    }

    /// As [`Engine::change`], for a session of this node. Blocks.
    pub(super) fn change_in(
        &self,
        catalog: &dyn Catalog,
        owner: &Owner,
        id: &SessionId,
        change: &mut (dyn FnMut(&mut SessionRecord) -> Result<bool, EngineError> + Send),
    ) -> Result<Changed, EngineError> {
        let mut outcome = None;
        let updated = catalog.update_session(owner, id, Durability::Process, &mut |session| {
            let before = session.state;
            let result = change(session);
            let written = matches!(result, Ok(true));
            outcome = Some(result.map(|written| Changed { session: session.clone(), before, written }));
            if written { Ok(None) } else { Err(RunDenied::Inactive) }
        });
        let changed = match (updated, outcome) {
            (Ok(_) | Err(UpdateSessionError::Denied(_)), Some(outcome)) => outcome?,
            (Err(UpdateSessionError::Catalog(error)), _) => return Err(not_found_or(error, id)),
            (Ok(_) | Err(UpdateSessionError::Denied(_)), None) => {
                return Err(EngineError::session_not_found(id));
            }
        };
        self.shared.leases.thinking.note(&changed.session);
        Ok(changed)
    }

    /// The session, if the request is one it would not deny.
    pub(crate) async fn asked(
        &self,
        owner: &Owner,
        id: &SessionId,
        request: SessionRequest,
    ) -> Result<SessionRecord, EngineError> {
        let session = self.session_record(owner, id).await?;
        permit(&session, request)?;
        Ok(session)
    }

    /// The sessions that hold a sandbox.
    pub(crate) async fn holders(
        &self,
        owner: &Owner,
        sandbox: &SandboxId,
    ) -> Result<Vec<SessionRecord>, EngineError> {
        let owner = owner.clone();
        let filter = SessionFilter { sandbox: Some(sandbox.clone()), ..SessionFilter::default() };
        let page = PageRequest { limit: PageRequest::MOST, after: None };
        Ok(self.catalog(move |catalog| catalog.sessions(&owner, &filter, &page)).await?.items)
    }

    /// Ends the sandbox of a released session, if no other session holds it.
    async fn let_go(&self, session: &SessionRecord, release: Release) -> Result<(), EngineError> {
        if !self.holders(&session.owner, &session.sandbox).await?.is_empty() {
            return Ok(());
        }
        let files = match release {
            Release::KeepAlive => StoppedFiles::Keep,
            Release::Destroy => StoppedFiles::Delete,
        };
        found(self.stop_by(&session.client, &session.owner, &session.sandbox, files).await)
    }

    /// Puts a session back where it was before a change that led nowhere.
    async fn change_back(&self, changed: &Changed) {
        let (now, before) = (changed.session.state, changed.before);
        let clock = self.shared.parts.clock.clone();
        let undone = self.change(&changed.session.owner, &changed.session.id, move |session| {
            let same = session.state == now;
            if same {
                session.enter(before, clock.as_ref());
            }
            Ok(same)
        });
        if let Err(error) = undone.await {
            tracing::warn!(session.id = %changed.session.id, %error, "a session could not be put back as it was");
        }
    }
}

/// Where the request leads; `None` when the session stays as it is.
fn permit(session: &SessionRecord, request: SessionRequest) -> Result<Option<SessionState>, EngineError> {
    match decide_session(session.state, request) {
        SessionVerdict::Enter(next) => Ok(Some(next)),
        SessionVerdict::AlreadySo => Ok(None),
        SessionVerdict::Denied(advice) => {
            Err(EngineError::SessionState { id: session.id.clone(), state: session.state, advice })
        }
    }
}

/// To end a sandbox that nobody remembers is no error.
fn found<T>(stopped: Result<T, EngineError>) -> Result<(), EngineError> {
    match stopped {
        Ok(_) | Err(EngineError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

pub(crate) fn not_found_or(error: warren_core::catalog::CatalogError, id: &SessionId) -> EngineError {
    match error.kind {
        CatalogErrorKind::NotFound => EngineError::session_not_found(id),
        _ => EngineError::Catalog(error),
    }
}
