//! Connections that a sandbox in mode `ask` waits for, until somebody answers.

use warren_core::network::{Grant, GrantEffect};

use super::NetworkView;
use crate::cell::NetworkChange;
use crate::error::Missing;
use crate::state::{Moment, NetworkAsk};
use crate::{EngineError, SandboxNetwork};

impl SandboxNetwork {
    /// The connections that wait for an answer, the oldest first.
    pub async fn asks(&self) -> Result<Vec<NetworkAsk>, EngineError> {
        self.sandbox.record().await?;
        let now = Moment::now(self.sandbox.engine.shared.parts.clock.as_ref());
        let asks = self.known(|known| {
            known.asks.expire(now);
            known.asks.all()
        });
        Ok(asks.unwrap_or_default())
    }

    /// Answers what a sandbox waits for: from now on, and for so long, the very same is allowed or
    /// denied. Of several answers to one ask only the first counts; the others are told that there
    /// is no such ask.
    pub async fn answer(
        &self,
        number: u64,
        answer: GrantEffect,
        for_ms: Option<u64>,
    ) -> Result<NetworkView, EngineError> {
        self.sandbox.engine.may_change()?;
        self.sandbox.record().await?;
        let taken = self.known(|known| known.asks.waiting.remove(&number)).flatten();
        let ask = taken
            .ok_or_else(|| EngineError::NotFound { what: Missing::NetworkAsk, id: number.to_string() })?;
        let until_unix_ms = self.sandbox.engine.until(for_ms);
        let grants = vec![Grant {
            rule: ask.rule.clone(),
            effect: answer,
            until_unix_ms,
            by: self.sandbox.caller.name.clone(),
        }];
        let answered = self.change(NetworkChange::Grant(grants)).await;
        if answered.is_err() {
            self.known(|known| known.asks.waiting.insert(number, ask));
        }
        answered
    }
}
