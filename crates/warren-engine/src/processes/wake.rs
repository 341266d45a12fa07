//! Wakes paused sandboxes when traffic comes, if they were made so.

use std::time::Duration;

use tokio::time::timeout;
use warren_core::{DenyReason, Wake};

use crate::{EngineError, Patch, Sandbox};

/// A sandbox that traffic woke is worth waking for a while.
const LEAST_LIFETIME_S: u64 = 300;

/// How long traffic waits until the sandbox is paused, if it is about to be, and goes on again.
const PATIENCE: Duration = Duration::from_secs(60);

impl Sandbox {
    /// Has a sandbox that somebody paused go on, if it wakes for traffic. One that does not is
    /// denied as paused; one that goes on anyway stays as it is. Nothing says who may wake it: the
    /// caller has checked that.
    pub async fn wake(&self) -> Result<(), EngineError> {
        let record = self.record().await?;
        let Some(wake) = record.traffic.wake else {
            let reason = DenyReason::Paused;
            return Err(EngineError::Denied { id: record.id, status: record.status, reason });
        };
        let not_woken = |source| EngineError::NotWoken { id: self.id.clone(), source: Box::new(source) };
        // If it is being paused, that is waited for.
        match timeout(PATIENCE, self.resume_for(wake, record.spec.limits.lifetime_s)).await {
            Ok(resumed) => resumed.map_err(not_woken)?,
            Err(_) => {
                let what = format!("waking {}", self.id);
                return Err(not_woken(EngineError::TimedOut { what, seconds: PATIENCE.as_secs() }));
            }
        }
        self.engine.shared.woken.note(&self.id);
        Ok(())
    }

    /// It gets the time that it was promised.
    async fn resume_for(&self, wake: Wake, lifetime_s: u64) -> Result<(), EngineError> {
        let most_s = self.engine.shared.settings.most_limits.lifetime_s;
        let ttl_s = wake.lifetime_s.max(LEAST_LIFETIME_S).min(most_s);
        if lifetime_s != ttl_s {
            self.update(Patch { ttl_s: Some(ttl_s), ..Patch::default() }).await?;
        }
        self.resume().await.map(drop)
    }
}
