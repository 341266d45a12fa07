//! Runs that clients record with their sessions, and the limits that decide whether there may be
//! another.

use warren_core::catalog::{Durability, UpdateSessionError};
use warren_core::{
    Event, NewRun, Provision, RunDenied, RunId, RunRecord, SessionRecord, SessionRequest, Status, can_run,
    record_run,
};

use crate::error::Field;
use crate::sessions::not_found_or;
use crate::{EngineError, Session, SessionView};

const MOST_TASK_BYTES: usize = 64 << 10;
const MOST_RESULT_BYTES: usize = 1 << 20;
const MOST_SCREENSHOTS: usize = 100;
const MOST_SCREENSHOT_BYTES: usize = 2048;
const MOST_PROVIDER_BYTES: usize = 200;
const MOST_REASON_BYTES: usize = 4096;

/// The runs that a session may still have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    pub denied: Option<RunDenied>,
    pub runs_left: u32,
    pub tokens_left: u64,
    /// Absent: no limit of its own.
    pub seconds_left: Option<u64>,
}

/// All there is to know of a session.
#[derive(Debug, Clone)]
pub struct SessionDetails {
    pub view: SessionView,
    pub runs: Vec<RunRecord>,
}

impl Session {
    /// Appends a run; sums are exact however many do so at once. What is returned survives a power
    /// cut.
    pub async fn record_run(&self, run: NewRun) -> Result<RunRecord, EngineError> {
        self.engine.may_change()?;
        check_run(&run)?;
        self.engine.check_session(self.owner(), &self.id).await?;
        let run_id = RunId::from_random(self.engine.shared.parts.random.bits());
        let (clock, owner, id) =
            (self.engine.shared.parts.clock.clone(), self.owner().clone(), self.id.clone());
        let (session, recorded) = self
            .engine
            .catalog(move |catalog| {
                let mut recorded = None;
                let updated = catalog.update_session(&owner, &id, Durability::Disk, &mut |session| {
                    let record = record_run(session, run_id.clone(), run.clone(), clock.as_ref())?;
                    recorded = Some(record.clone());
                    Ok(Some(record))
                });
                match (updated, recorded) {
                    (Ok(session), Some(recorded)) => Ok((session, recorded)),
                    (Err(UpdateSessionError::Denied(denied)), _) => Err(EngineError::RunDenied(denied)),
                    (Err(UpdateSessionError::Catalog(error)), _) => Err(not_found_or(error, &id)),
                    (Ok(_), None) => Err(EngineError::session_not_found(&id)),
                }
            })
            .await?;
        let (run, tokens, duration_ms) = (recorded.number, recorded.run.tokens, recorded.run.duration_ms);
        self.engine.tell(&session, Event::RunRecorded { run, tokens, duration_ms });
        Ok(recorded)
    }

    pub async fn can_run(&self) -> Result<Allowance, EngineError> {
        let session = self.engine.session_record(self.owner(), &self.id).await?;
        let clock = self.engine.shared.parts.clock.as_ref();
        Ok(Allowance {
            denied: can_run(&session, clock).err(),
            runs_left: session.limits.runs.saturating_sub(session.totals.runs),
            tokens_left: session.limits.tokens.saturating_sub(session.totals.tokens),
            seconds_left: session.deadline.as_ref().map(|deadline| deadline.remaining_ms(clock) / 1000),
        })
    }

    /// A session's runs, the first one first.
    pub async fn runs(&self) -> Result<Vec<RunRecord>, EngineError> {
        self.engine.session_record(self.owner(), &self.id).await?;
        let (owner, id) = (self.owner().clone(), self.id.clone());
        Ok(self.engine.catalog(move |catalog| catalog.runs(&owner, &id)).await?)
    }

    pub async fn details(&self) -> Result<SessionDetails, EngineError> {
        let view = self.view().await?;
        let runs = self.runs().await?;
        Ok(SessionDetails { view, runs })
    }

    /// Marks what the session needs as ready, at this address. Denied while its sandbox is being
    /// made, and once it failed.
    pub async fn mark_ready(
        &self,
        url: Option<String>,
        job: Option<String>,
    ) -> Result<SessionRecord, EngineError> {
        self.engine.may_change()?;
        check_text(Field::ProvisionUrl, url.as_deref(), MOST_SCREENSHOT_BYTES)?;
        check_text(Field::ProvisionJob, job.as_deref(), MOST_PROVIDER_BYTES)?;
        let sandbox = self.engine.session_record(self.owner(), &self.id).await?.sandbox;
        let sandbox = self.access().sandbox(&sandbox).record().await?;
        if sandbox.status == Status::Creating {
            let reason = warren_core::DenyReason::StillCreating;
            return Err(EngineError::Denied { id: sandbox.id, status: sandbox.status, reason });
        }
        self.provision(Provision::Ready { url, job }).await
    }

    /// Marks what the session needs as failed. The first reason stays.
    pub async fn mark_failed(&self, reason: String) -> Result<SessionRecord, EngineError> {
        self.engine.may_change()?;
        if reason.trim().is_empty() || reason.len() > MOST_REASON_BYTES {
            let message = format!("takes 1 to {MOST_REASON_BYTES} bytes of text");
            return Err(EngineError::predicate(Field::FailureReason, message));
        }
        self.provision(Provision::Failed { reason }).await
    }

    /// Marks the session expired; its sandbox is stopped in the background, files kept as the
    /// sandbox was told.
    pub async fn expire(&self) -> Result<SessionRecord, EngineError> {
        self.engine.may_change()?;
        let changed = self.engine.step(self.owner(), &self.id, SessionRequest::Expire).await?;
        if changed.written {
            let reason = "the session was told that its time is over";
            self.engine.tell(&changed.session, Event::SessionExpired { reason: reason.to_owned() });
            let (engine, session) = (self.engine.clone(), changed.session.clone());
            tokio::spawn(async move { engine.stop_expired(&session, reason.to_owned()).await });
        }
        Ok(changed.session)
    }

    async fn provision(&self, next: Provision) -> Result<SessionRecord, EngineError> {
        let word = if matches!(next, Provision::Failed { .. }) { "failed" } else { "ready" };
        let clock = self.engine.shared.parts.clock.clone();
        let changed = self
            .engine
            .change(self.owner(), &self.id, move |session| {
                let denied = |session: &SessionRecord, advice| EngineError::SessionState {
                    id: session.id.clone(),
                    state: session.state,
                    advice,
                };
                if !session.state.is_open() {
                    return Err(denied(session, "it no longer holds a sandbox"));
                }
                let next =
                    session.provision.decide(next.clone()).map_err(|advice| denied(session, advice))?;
                let changes = next.is_some();
                if let Some(next) = next {
                    session.provision = next;
                    session.last_activity_unix_ms = clock.unix_ms();
                }
                Ok(changes)
            })
            .await?;
        if changed.written {
            self.engine.tell(&changed.session, Event::SessionProvisioned { state: word.to_owned() });
        }
        Ok(changed.session)
    }
}

fn check_run(run: &NewRun) -> Result<(), EngineError> {
    if run.task.trim().is_empty() {
        let message = "says what was to be done, and must not be empty".to_owned();
        return Err(EngineError::predicate(Field::Task, message));
    }
    check_text(Field::Task, Some(&run.task), MOST_TASK_BYTES)?;
    check_text(Field::RunResult, run.result.as_deref(), MOST_RESULT_BYTES)?;
    check_text(Field::Provider, run.provider.as_deref(), MOST_PROVIDER_BYTES)?;
    if run.screenshots.len() > MOST_SCREENSHOTS {
        let message = format!("takes {MOST_SCREENSHOTS} at most");
        return Err(EngineError::predicate(Field::Screenshots, message));
    }
    run.screenshots
        .iter()
        .try_for_each(|shot| check_text(Field::Screenshots, Some(shot), MOST_SCREENSHOT_BYTES))
}

fn check_text(field: Field, text: Option<&str>, most: usize) -> Result<(), EngineError> {
    if text.is_some_and(|text| text.len() > most) {
        return Err(EngineError::predicate(field, format!("takes at most {most} bytes of text")));
    }
    Ok(())
}

#[cfg(test)]
#[path = "runs_tests.rs"]
mod tests;
