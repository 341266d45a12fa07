//! A call that has an id is made once. A repeated call gets the first answer, and waits for it if
//! need be.

use std::time::Duration;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use warren_core::ToolAnswer;

use super::{ToolCall, ToolResult};
use crate::error::{Field, sentence};
use crate::guest::ANSWER;
use crate::{Engine, EngineError, Sandbox};

/// Longest id of a call.
const LONGEST: usize = 255;

pub(super) fn check_id(call: &ToolCall) -> Result<(), EngineError> {
    let fits =
        |id: &String| (1..=LONGEST).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    match &call.call {
        Some(id) if !fits(id) => {
            Err(EngineError::invalid(Field::ToolCall, "it takes 1 to 255 visible ASCII characters"))
        }
        _ => Ok(()),
    }
}

impl Sandbox {
    /// Does the work unless a call of this id was answered before. `limit_ms`: how long such a call
    /// may take.
    pub(super) async fn once(
        &self,
        call: &ToolCall,
        limit_ms: u64,
        work: impl Future<Output = Result<ToolResult, EngineError>>,
    ) -> Result<ToolResult, EngineError> {
        let Some(name) = call.call.clone() else { return work.await };
        let patience = Duration::from_millis(limit_ms).saturating_add(ANSWER);
        let turn = self.engine.shared.calls.hold((self.id.clone(), name.clone()));
        let Ok(_turn) = tokio::time::timeout(patience, turn).await else {
            let what = "the first call of this id".to_owned();
            return Err(EngineError::TimedOut { what, seconds: patience.as_secs() });
        };
        let begun = ToolAnswer {
            owner: self.owner().clone(),
            sandbox: self.id.clone(),
            call: name.clone(),
            fingerprint: fingerprint(call),
            answer: None,
            at_unix_ms: self.engine.shared.parts.clock.unix_ms(),
        };
        if let Some(answer) = self.engine.begin_call(begun).await? {
            return Ok(answer);
        }
        let outcome = work.await;
        let answer = outcome.as_ref().ok().and_then(|result| serde_json::to_string(result).ok());
        let sandbox = self.id.clone();
        let kept =
            self.engine.catalog(move |catalog| catalog.finish_call(&sandbox, &name, answer.as_deref())).await;
        if let Err(error) = kept {
            // The work is done; only a repeated call will not know it.
            self.engine.fault();
            tracing::error!(sandbox.id = %self.id, error = sentence(&error), "cannot keep the answer to a tool call");
        }
        outcome
    }
}

impl Engine {
    /// Writes down that a call begins. The answer, if it was made before.
    async fn begin_call(&self, begun: ToolAnswer) -> Result<Option<ToolResult>, EngineError> {
        let earlier = self
            .catalog(move |catalog| {
                let Some(earlier) = catalog.begin_call(&begun)? else { return Ok(None) };
                if earlier.fingerprint != begun.fingerprint {
                    return Err(EngineError::IdempotencyMismatch);
                }
                if earlier.answer.is_none() {
                    // No other call is under way: the first caller left, and its answer is lost.
                    catalog.finish_call(&begun.sandbox, &begun.call, None)?;
                    catalog.begin_call(&begun)?;
                }
                Ok(earlier.answer)
            })
            .await?;
        let Some(answer) = earlier else { return Ok(None) };
        match serde_json::from_str::<ToolResult>(&answer) {
            Ok(result) => Ok(Some(ToolResult { repeated: true, ..result })),
            Err(error) => {
                let action = "read the answer to an earlier tool call";
                Err(EngineError::Catalog(warren_core::catalog::CatalogError::caused(
                    warren_core::catalog::CatalogErrorKind::Damaged,
                    action,
                    error,
                )))
            }
        }
    }
}

/// Tells calls apart that mean something else.
pub(super) fn fingerprint(call: &ToolCall) -> String {
    let resources = call.resources;
    let head = format!(
        "{}\n{:?} {:?} {:?} {}\n",
        call.tool, resources.timeout_ms, resources.most_output_bytes, resources.memory_bytes, call.snapshot
    );
    let hash = Sha256::new_with_prefix(head).chain_update(call.params.to_string()).finalize();
    HEXLOWER.encode(&hash)
}
