//! Ends of sessions without a request: their time is over, or their sandbox ended.

use futures_util::StreamExt;
use futures_util::stream;
use warren_core::catalog::{Catalog, CatalogError, SessionFilter};
use warren_core::{
    Clock, DeathCause, Event, OnExpiry, Owner, PageRequest, Provision, SandboxId, SandboxRecord,
    SessionRecord, SessionRequest, SessionState,
};

use crate::state::all_pages;
use crate::{Engine, EngineError, StoppedFiles};

/// How many sandboxes are stopped at once.
const AT_ONCE: usize = 8;

/// The end that is due for a session.
enum Due {
    /// Its time is over: why, and whether its sandbox's files stay whatever the sandbox was told.
    Expired {
        reason: String,
        keep: bool,
    },
    /// Its sandbox ended, and nobody has told the session.
    Orphaned,
    LeaseOver,
}

impl Engine {
    /// The sandbox has ended or could not be made: its sessions no longer hold it. Called by its
    /// driver, once the record says so.
    pub(crate) async fn sandbox_ended(&self, sandbox: &SandboxRecord) {
        self.shared.leases.thinking.forget(&sandbox.id);
        let (owner, id) = (sandbox.owner.clone(), sandbox.id.clone());
        match self.catalog(move |catalog| all_sessions(catalog, &owner, &id)).await {
            Ok(sessions) => {
                for session in sessions {
                    self.lose(&session, sandbox).await;
                }
            }
            Err(error) => {
                tracing::warn!(sandbox.id = %sandbox.id, %error, "sessions of an ended sandbox are left to the sweep");
            }
        }
    }

    /// The sandbox was made or started again: what its sessions waited for is there. Called by its
    /// driver, once the record says so.
    pub(crate) async fn sandbox_ready(&self, sandbox: &SandboxRecord) {
        let (engine, owner, id) = (self.inner(), sandbox.owner.clone(), sandbox.id.clone());
        let told = self.catalog(move |catalog| engine.tell_waiting(catalog, &owner, &id)).await;
        match told {
            Ok(sessions) => {
                for session in sessions {
                    self.tell(&session, Event::SessionProvisioned { state: "ready".to_owned() });
                }
            }
            Err(error) => {
                tracing::warn!(sandbox.id = %sandbox.id, %error, "sessions were not told that their sandbox is ready");
            }
        }
    }

    /// Writes down for the sessions that wait for a sandbox that it is ready. Blocks.
    fn tell_waiting(
        &self,
        catalog: &dyn Catalog,
        owner: &Owner,
        id: &SandboxId,
    ) -> Result<Vec<SessionRecord>, EngineError> {
        let filter = SessionFilter { sandbox: Some(id.clone()), ..SessionFilter::default() };
        let page = PageRequest { limit: PageRequest::MOST, after: None };
        let holders = catalog.sessions(owner, &filter, &page)?.items;
        // Whoever starts a browser says when it is there.
        let waits = |session: &SessionRecord| {
            session.provision == Provision::Pending && !session.kind.waits_for_browser()
        };
        let waiting = holders.into_iter().filter(waits);
        let mut told = Vec::new();
        for session in waiting {
            let changed = self.change_in(catalog, owner, &session.id, &mut |session| {
                let pending = session.provision == Provision::Pending;
                if pending {
                    session.provision = Provision::Ready { url: None, job: None };
                }
                Ok(pending)
            });
            match changed {
                Ok(changed) => told.extend(Some(changed.session).filter(|_| changed.written)),
                Err(error) => {
                    tracing::warn!(session.id = %session.id, %error, "a session was not told that its sandbox is ready");
                }
            }
        }
        Ok(told)
    }

    /// Resumes the last session of a resumed sandbox that no session holds, unless its own time is
    /// over.
    pub(crate) async fn reopen(&self, sandbox: &SandboxRecord) {
        let (owner, id) = (sandbox.owner.clone(), sandbox.id.clone());
        let clock = self.shared.parts.clock.clone();
        let last = self.catalog(move |catalog| {
            let sessions = all_sessions(catalog, &owner, &id)?;
            let held = sessions.iter().any(|session| session.state.is_open());
            let mut expired = sessions.into_iter().filter(|session| session.state == SessionState::Expired);
            let lasts = |session: &SessionRecord| {
                !session.deadline.as_ref().is_some_and(|end| end.is_due(clock.as_ref()))
            };
            Ok(if held { None } else { expired.find(lasts) })
        });
        let reopened = match last.await {
            Ok(Some(session)) => self.step(&session.owner, &session.id, SessionRequest::Resume).await,
            Ok(None) => return,
            Err(error) => Err(error),
        };
        match reopened {
            Ok(changed) => {
                self.tell(&changed.session, Event::SessionResumed);
                // One that ended in the meantime had told its sessions before this one came back.
                drop(self.still_alive(&sandbox.owner, &sandbox.id).await);
            }
            Err(error) => {
                tracing::warn!(sandbox.id = %sandbox.id, %error, "the session of a resumed sandbox stays expired");
            }
        }
    }

    /// Ends sessions whose time is over. Part of every sweep.
    pub(crate) async fn sweep_sessions(&self) {
        let clock = self.shared.parts.clock.clone();
        let due = self.catalog(move |catalog| due_sessions(catalog, clock.as_ref())).await;
        let due = match due {
            Ok((open, due)) => {
                open.iter().for_each(|session| self.shared.leases.thinking.note(session));
                due
            }
            Err(error) => {
                tracing::warn!(%error, "sessions could not be swept");
                return;
            }
        };
        stream::iter(due)
            .for_each_concurrent(AT_ONCE, |(session, due)| async move {
                match due {
                    Due::Expired { reason, keep } => self.time_over(&session, reason, keep).await,
                    Due::Orphaned => self.orphaned(&session).await,
                    Due::LeaseOver => self.end_lease(&session).await,
                }
            })
            .await;
    }

    /// True while a client's model works, so that the sandbox does not count as idle. Must not
    /// wait.
    pub(crate) fn is_thinking(&self, id: &SandboxId) -> bool {
        self.shared.leases.thinking.about(id, self.shared.parts.clock.as_ref())
    }

    /// Marks a session expired and stops the sandbox if nobody else holds it.
    async fn time_over(&self, session: &SessionRecord, reason: String, keep: bool) {
        let _turn = self.shared.leases.turns.hold(session.sandbox.clone()).await;
        match self.mark_expired(session, &reason).await {
            Ok(Some(session)) => self.stop_unheld(&session, reason, keep).await,
            Ok(None) => {}
            Err(error) => tracing::warn!(session.id = %session.id, %error, "a session could not be expired"),
        }
    }

    /// `None` when the session came back, or ended, before its turn came.
    async fn mark_expired(
        &self,
        session: &SessionRecord,
        reason: &str,
    ) -> Result<Option<SessionRecord>, EngineError> {
        let clock = self.shared.parts.clock.clone();
        let changed = self
            .change(&session.owner, &session.id, move |session| {
                let over = over(session, clock.as_ref()).is_some();
                if over {
                    session.enter(SessionState::Expired, clock.as_ref());
                }
                Ok(over)
            })
            .await?;
        if !changed.written {
            return Ok(None);
        }
        self.tell(&changed.session, Event::SessionExpired { reason: reason.to_owned() });
        Ok(Some(changed.session))
    }

    /// Stops the sandbox of a session that was told that its time is over, unless another session
    /// holds it.
    pub(crate) async fn stop_expired(&self, session: &SessionRecord, reason: String) {
        let _turn = self.shared.leases.turns.hold(session.sandbox.clone()).await;
        self.stop_unheld(session, reason, false).await;
    }

    async fn stop_unheld(&self, session: &SessionRecord, reason: String, keep: bool) {
        if let Err(error) = self.try_stop_unheld(session, reason, keep).await {
            tracing::warn!(session.id = %session.id, sandbox.id = %session.sandbox, %error, "the sandbox of an expired session runs on");
        }
    }

    async fn try_stop_unheld(
        &self,
        session: &SessionRecord,
        reason: String,
        keep: bool,
    ) -> Result<(), EngineError> {
        let (owner, id) = (&session.owner, &session.sandbox);
        if !self.holders(owner, id).await?.is_empty() {
            return Ok(());
        }
        let sandbox = self.record_of(owner, id).await?;
        let files = match sandbox.on_expiry {
            OnExpiry::Delete if !keep => StoppedFiles::Delete,
            OnExpiry::Delete | OnExpiry::Keep | OnExpiry::Pause => StoppedFiles::Keep,
        };
        self.stop_because(owner, id, DeathCause::Timeout, reason, files).await.map(drop)
    }

    /// Takes a session's sandbox away from it.
    async fn lose(&self, session: &SessionRecord, sandbox: &SandboxRecord) {
        let (kept, reason) = (sandbox.files_kept(), super::ended(sandbox));
        let (clock, failed) = (self.shared.parts.clock.clone(), reason.clone());
        let lost = self.change(&session.owner, &session.id, move |session| {
            let next = if kept { SessionState::Expired } else { SessionState::Terminated };
            let lost = session.state.is_open() || session.state == SessionState::Expired && !kept;
            if lost {
                session.enter(next, clock.as_ref());
                if session.provision == Provision::Pending {
                    session.provision = Provision::Failed { reason: failed.clone() };
                }
            }
            Ok(lost)
        });
        match lost.await {
            Ok(changed) if changed.written && kept => {
                self.tell(&changed.session, Event::SessionExpired { reason })
            }
            Ok(changed) if changed.written => {
                self.tell(&changed.session, Event::SessionTerminated { by: ended_by(sandbox) });
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(session.id = %session.id, %error, "a session kept its ended sandbox")
            }
        }
    }

    /// The process ended between the end of a sandbox and the word of it to this session.
    async fn orphaned(&self, session: &SessionRecord) {
        let _turn = self.shared.leases.turns.hold(session.sandbox.clone()).await;
        match self.record_of(&session.owner, &session.sandbox).await {
            Ok(sandbox) if !sandbox.is_live() => self.lose(session, &sandbox).await,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(session.id = %session.id, %error, "the sandbox of a session cannot be seen")
            }
        }
    }

    async fn end_lease(&self, session: &SessionRecord) {
        let clock = self.shared.parts.clock.clone();
        let ended = self.change(&session.owner, &session.id, move |session| {
            let over = session.thinking_until.as_ref().is_some_and(|until| until.is_due(clock.as_ref()));
            if over {
                session.thinking_until = None;
            }
            Ok(over)
        });
        if let Err(error) = ended.await {
            tracing::warn!(session.id = %session.id, %error, "a lease that is over stays written down");
        }
    }
}

fn ended_by(sandbox: &SandboxRecord) -> String {
    match sandbox.death.as_ref().map(|death| &death.cause) {
        Some(DeathCause::Killed { by }) => by.clone(),
        Some(cause) => cause.word().to_owned(),
        None => "warren".to_owned(),
    }
}

/// Every session that a sandbox has or had.
fn all_sessions(
    catalog: &dyn Catalog,
    owner: &warren_core::Owner,
    sandbox: &SandboxId,
) -> Result<Vec<SessionRecord>, CatalogError> {
    let filter = SessionFilter { sandbox: Some(sandbox.clone()), client: None, ended: true };
    all_pages(|request| catalog.sessions(owner, &filter, request))
}

type Swept = (Vec<SessionRecord>, Vec<(SessionRecord, Due)>);

fn due_sessions(catalog: &dyn Catalog, clock: &dyn Clock) -> Result<Swept, CatalogError> {
    let open = catalog.open_sessions(catalog.node())?;
    let mut due = Vec::new();
    for session in &open {
        let sandbox = catalog.sandbox(&session.owner, &session.sandbox)?;
        if sandbox.is_some_and(|sandbox| !sandbox.is_live()) {
            due.push((session.clone(), Due::Orphaned));
        } else if let Some((reason, keep)) = over(session, clock) {
            due.push((session.clone(), Due::Expired { reason, keep }));
        } else if session.thinking_until.as_ref().is_some_and(|until| until.is_due(clock)) {
            due.push((session.clone(), Due::LeaseOver));
        }
    }
    Ok((open, due))
}

/// The reason why a session's time is over, if it is, and whether its sandbox's files stay in any
/// case: a client that went away may come back for its work.
fn over(session: &SessionRecord, clock: &dyn Clock) -> Option<(String, bool)> {
    if warren_core::decide_session(session.state, SessionRequest::Expire)
        != warren_core::SessionVerdict::Enter(SessionState::Expired)
    {
        return None;
    }
    if session.deadline.as_ref().is_some_and(|deadline| deadline.is_due(clock)) {
        return Some((format!("the session lasted {} s", session.limits.duration_s), false));
    }
    let detached = session.detached_until.as_ref().is_some_and(|until| until.is_due(clock));
    detached.then(|| (format!("the session was detached for {} s", session.timeouts.detached_s), true))
}
