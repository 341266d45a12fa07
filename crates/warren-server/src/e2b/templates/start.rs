//! What runs in a sandbox of a template from its beginning. Snapshots hold files and no processes, so it is started anew with
//! every sandbox, and waited for as the template says.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use warren_core::{ErrorCode, SandboxRecord};
use warren_engine::{EngineError, OutputCaps, ProcessSpec, Sandbox};
use warren_wire::guest::{ByteString, Stdin};

use crate::auth::Caller;
use crate::e2b::control::E2bError;
use crate::state::AppState;

/// Under which name it is in a sandbox's record.
const ANNOTATION: &str = "e2b_start";

/// How long a new sandbox may take to be ready.
const PATIENCE: Duration = Duration::from_secs(45);
/// How often it is asked, to begin with and in the end.
const FIRST_REST: Duration = Duration::from_millis(50);
const LAST_REST: Duration = Duration::from_secs(2);

/// What a template's sandboxes begin with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Start {
    /// Runs for as long as the sandbox does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// Succeeds once the sandbox is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ready: Option<String>,
}

impl Start {
    /// Of what a client wrote: an empty command is none.
    pub(super) fn new(command: Option<String>, ready: Option<String>) -> Option<Self> {
        let said = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let start = Self { command: said(command), ready: said(ready) };
        (start != Self::default()).then_some(start)
    }

    pub(super) fn of(record: &SandboxRecord) -> Option<Self> {
        Self::read(&record.annotations)
    }

    pub(super) fn read(annotations: &BTreeMap<String, String>) -> Option<Self> {
        serde_json::from_str(annotations.get(ANNOTATION)?).ok()
    }

    /// What a sandbox's record has to say, so that it is known when the sandbox is started again.
    pub(super) fn annotations(&self) -> BTreeMap<String, String> {
        let text = serde_json::to_string(self).unwrap_or_default();
        [(ANNOTATION.to_owned(), text)].into()
    }
}

/// Where a command runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Surroundings {
    pub(super) user: Option<String>,
    pub(super) workdir: Option<String>,
    pub(super) env: BTreeMap<String, String>,
}

/// A command as a login shell of the user would run it.
pub(super) fn in_shell(command: &str, around: &Surroundings) -> ProcessSpec {
    let text = |text: &String| ByteString::from(text.as_str());
    ProcessSpec {
        argv: ["/bin/bash", "-lc", command].map(ByteString::from).to_vec(),
        env: around.env.iter().map(|(name, value)| text(&format!("{name}={value}"))).collect(),
        cwd: around.workdir.as_ref().map(text),
        user: around.user.as_ref().map(text),
        stdin: Stdin::Null,
        terminal: None,
        tag: None,
        timeout_ms: None,
        follow: None,
        until_closed: None,
    }
}

/// Runs the start command of a sandbox that has just been made or started anew, and waits until the sandbox is ready.
pub(crate) async fn start(state: &AppState, caller: &Caller, record: &SandboxRecord) -> Result<(), E2bError> {
    let Some(start) = Start::of(record) else { return Ok(()) };
    let sandbox = state.engine.as_(caller).sandbox(&record.id);
    let place = Place { sandbox: &sandbox };
    place.begin(&start, &Surroundings::default()).await?;
    if !place.until_ready(&start, &Surroundings::default(), PATIENCE).await? {
        let message = format!(
            "the template's ready command did not succeed within {} s: build the template with one that does",
            PATIENCE.as_secs()
        );
        return Err(E2bError::new(ErrorCode::TimedOut, message));
    }
    Ok(())
}

/// In which sandbox.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) sandbox: &'a Sandbox,
}

impl Place<'_> {
    /// Runs the start command, and leaves it alone.
    pub(super) async fn begin(&self, start: &Start, around: &Surroundings) -> Result<(), EngineError> {
        let Some(command) = &start.command else { return Ok(()) };
        self.sandbox.spawn(in_shell(command, around)).await.map(drop)
    }

    /// Whether it became ready in time.
    pub(super) async fn until_ready(
        &self,
        start: &Start,
        around: &Surroundings,
        patience: Duration,
    ) -> Result<bool, EngineError> {
        let Some(ready) = &start.ready else { return Ok(true) };
        let (until, mut rest) = (Instant::now() + patience, FIRST_REST);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
            let spec = ProcessSpec { timeout_ms: Some(timeout_ms), ..in_shell(ready, around) };
            let none = OutputCaps { stdout: 0, stderr: 0 };
            let asked = self.sandbox.exec(spec, Bytes::new(), none).await?;
            if asked.exit.code == 0 {
                return Ok(true);
            }
            if Instant::now() + rest >= until {
                return Ok(false);
            }
            sleep(rest).await;
            rest = (rest * 2).min(LAST_REST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_command_is_none() {
        assert_eq!(Start::new(Some(" ".to_owned()), None), None);
        let start = Start::new(Some("serve".to_owned()), Some(String::new())).unwrap();
        assert_eq!(start, Start { command: Some("serve".to_owned()), ready: None });
        assert_eq!(Start::read(&start.annotations()), Some(start));
    }
}
