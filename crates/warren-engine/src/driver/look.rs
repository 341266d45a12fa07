//! Things that are due: the end of a life, the end of a pause, rest for want of work.

use warren_core::{DeathCause, OnExpiry, PausedBy, Pulse, Request, Status};

use super::{Driver, Link};
use crate::EngineError;
use crate::certificate::{Ending, did_something};
use crate::error::sentence;

/// The wait before a failed change is tried again.
const RETRY_MS: u64 = 5000;

impl Driver {
    /// Looks at the clock and at what the sandbox has been doing.
    pub(super) async fn look(&mut self, pulse: Option<Pulse>) -> Result<(), EngineError> {
        if self.record.status == Status::Stopping {
            return self.finish().await;
        }
        if self.has_outlived() {
            return self.expire().await;
        }
        if let Some(ending) = self.paused_too_long() {
            return self.stop(ending).await;
        }
        self.straighten().await?;
        if self.record.is_live() {
            self.expire_grants().await?;
        }
        self.clear_left_behind().await;
        if self.is_blind()
            && let Ok(watch) = self.isolate(|backend, id| backend.watch(id)).await
        {
            self.watch_over(watch);
            self.see_again();
        }
        if self.record.status == Status::Ready && self.is_idle(pulse) {
            self.rest().await;
        }
        Ok(())
    }

    /// When there is something to look at, on the clock of the boot.
    pub(super) fn next_look_ms(&self) -> u64 {
        let now_ms = self.now_ms();
        if self.is_behind() {
            return now_ms.saturating_add(RETRY_MS);
        }
        if !self.record.is_live() {
            return u64::MAX;
        }
        let clock = self.engine.shared.parts.clock.as_ref();
        let mut remaining_ms = u64::MAX;
        if !self.is_paused_by_request() {
            remaining_ms = self.record.deadline.remaining_ms(clock);
        }
        if let Some(paused) = &self.record.paused {
            remaining_ms = remaining_ms.min(paused.deadline.remaining_ms(clock));
        }
        if let Some(expiry_unix_ms) = self.record.spec.network.next_expiry() {
            remaining_ms = remaining_ms.min(expiry_unix_ms.saturating_sub(clock.unix_ms()));
        }
        let due_ms = now_ms.saturating_add(remaining_ms);
        if self.record.status == Status::Ready && self.cell.backend.port.capabilities().freeze {
            due_ms.min(self.idle_since_ms().saturating_add(self.active_ms()))
        } else {
            due_ms
        }
    }

    /// True if something failed and is to be tried again.
    fn is_behind(&self) -> bool {
        let unended = self.record.status == Status::Stopping;
        let unlinked = matches!(self.link, Link::Behind | Link::Doomed);
        let left = self.record.is_live() && self.record.left.is_some();
        !self.unfinished.is_nothing() || unended || self.is_blind() || unlinked || left
    }

    /// True if it runs or is frozen and nothing tells when it ends: an attempt to watch it failed,
    /// or it ended and that could not be written down.
    fn is_blind(&self) -> bool {
        matches!(self.record.status, Status::Ready | Status::Paused) && self.watch.is_none()
    }

    /// Its time to live is over: it pauses or ends, as it was told to.
    pub(super) async fn expire(&mut self) -> Result<(), EngineError> {
        if !self.record.is_live() || self.is_paused_by_request() {
            return Ok(());
        }
        let pauses = self.record.on_expiry == OnExpiry::Pause && self.cell.backend.port.capabilities().freeze;
        if pauses && matches!(self.record.status, Status::Ready | Status::Paused) {
            self.cell.check_unoccupied(Request::Pause)?;
            return self.pause().await;
        }
        let lived_s = self.record.spec.limits.lifetime_s;
        self.stop(Ending {
            cause: DeathCause::Ttl,
            detail: format!("its time to live of {lived_s} s is over"),
            files_kept: self.record.on_expiry != OnExpiry::Delete,
        })
        .await
    }

    fn has_outlived(&self) -> bool {
        let clock = self.engine.shared.parts.clock.as_ref();
        self.record.is_live() && !self.is_paused_by_request() && self.record.deadline.is_due(clock)
    }

    fn is_paused_by_request(&self) -> bool {
        self.record.paused.as_ref().is_some_and(|paused| paused.by == PausedBy::Request)
    }

    /// The ending of a sandbox that was paused for too long.
    fn paused_too_long(&self) -> Option<Ending> {
        if !self.record.is_live() {
            return None;
        }
        let clock = self.engine.shared.parts.clock.as_ref();
        let paused = self.record.paused.as_ref().filter(|paused| paused.deadline.is_due(clock))?;
        let suspended_s = self.record.timeouts.suspended_s;
        let (cause, detail) = match paused.by {
            PausedBy::Idleness => (
                DeathCause::Idle,
                format!("nobody used it for {suspended_s} s after it was frozen for want of work"),
            ),
            PausedBy::Request => (DeathCause::Timeout, format!("it was paused for {suspended_s} s")),
        };
        Some(Ending { cause, detail, files_kept: true })
    }

    /// True if it has done nothing for long enough. Without a pulse nothing is known, and it goes
    /// on.
    fn is_idle(&mut self, pulse: Option<Pulse>) -> bool {
        let now_ms = self.now_ms();
        let inside = self.cell.life().inside() > 0;
        let worked = match pulse {
            Some(now) => {
                let before = self.pulse.replace((now, now_ms));
                did_something(before, now, now_ms, self.life_began_ms)
            }
            None => true,
        };
        if inside || worked || self.engine.is_thinking(&self.record.id) {
            self.busy_ms = now_ms;
            return false;
        }
        now_ms.saturating_sub(self.idle_since_ms()) >= self.active_ms()
    }

    async fn rest(&mut self) {
        let idle_since_ms = self.idle_since_ms();
        if !self.cell.backend.port.capabilities().freeze || !self.cell.close_if_unused(idle_since_ms) {
            return;
        }
        if let Err(error) = self.freeze(PausedBy::Idleness).await {
            self.busy_ms = self.now_ms();
            tracing::warn!(sandbox.id = %self.record.id, error = sentence(&error), "cannot freeze an idle sandbox");
        }
    }

    fn idle_since_ms(&self) -> u64 {
        self.busy_ms.max(self.cell.life().used_ms())
    }

    fn active_ms(&self) -> u64 {
        self.record.timeouts.active_s.saturating_mul(1000)
    }
}
