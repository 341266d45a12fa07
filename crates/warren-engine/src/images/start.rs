//! Commands that run in a sandbox of an image from its beginning, and are waited for as the image
//! says.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use warren_core::{SandboxRecord, StartCommands};
use warren_wire::guest::ByteString;

use super::{ImageError, Images};
use crate::{EngineError, OutputCaps, ProcessSpec, Sandbox};

/// How long a new sandbox may take to be ready.
const PATIENCE: Duration = Duration::from_secs(45);
/// How often it is asked, to begin with and in the end.
const FIRST_REST: Duration = Duration::from_millis(50);
const LAST_REST: Duration = Duration::from_secs(2);

/// The user, directory and variables of a command.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    pub(super) user: Option<String>,
    pub(super) workdir: Option<String>,
    pub(super) env: BTreeMap<String, String>,
}

/// The sandbox in which commands run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) sandbox: &'a Sandbox,
}

impl Images {
    /// Runs the start command of a sandbox that has just been made or started anew, and waits until
    /// the sandbox is ready.
    pub async fn start(&self, record: &SandboxRecord) -> Result<(), ImageError> {
        let Some(start) = &record.start else { return Ok(()) };
        let sandbox = self.access.sandbox(&record.id);
        let place = Place { sandbox: &sandbox };
        place.begin(start, &Environment::default()).await?;
        if place.until_ready(start, &Environment::default(), PATIENCE).await? {
            return Ok(());
        }
        Err(ImageError::NotReady { seconds: PATIENCE.as_secs() })
    }
}

impl Place<'_> {
    /// Runs the start command, and leaves it alone.
    pub(super) async fn begin(&self, start: &StartCommands, with: &Environment) -> Result<(), EngineError> {
        let Some(command) = &start.command else { return Ok(()) };
        self.sandbox.spawn(in_shell(command, with)).await.map(drop)
    }

    /// Waits until it is ready. Returns false if that takes too long.
    pub(super) async fn until_ready(
        &self,
        start: &StartCommands,
        with: &Environment,
        patience: Duration,
    ) -> Result<bool, EngineError> {
        let Some(ready) = &start.ready else { return Ok(true) };
        let (until, mut rest) = (Instant::now() + patience, FIRST_REST);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
            let spec = ProcessSpec { timeout_ms: Some(timeout_ms), ..in_shell(ready, with) };
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

/// A command as a login shell of the user would run it.
pub(super) fn in_shell(command: &str, with: &Environment) -> ProcessSpec {
    let text = |text: &String| ByteString::from(text.as_str());
    ProcessSpec {
        argv: ["/bin/bash", "-lc", command].map(ByteString::from).to_vec(),
        env: with.env.iter().map(|(name, value)| text(&format!("{name}={value}"))).collect(),
        cwd: with.workdir.as_ref().map(text),
        user: with.user.as_ref().map(text),
        ..ProcessSpec::default()
    }
}
