//! The two programs inside, from the first question for them to their answers.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};
use warren_core::SandboxKind;
use warren_engine::{EngineError, ProcessEvent, ProcessReader, ProcessSpec, Visit};
use warren_face::port::is_closed;
use warren_wire::guest::{FailureCode, Reader, Stdin};

use crate::{Browser, BrowserError};

/// Where Chromium's developer tools listen.
pub(crate) const DEVTOOLS: u16 = 9222;
/// Where the server of tools listens.
pub(crate) const TOOLS: u16 = 8931;

/// How long both may take until they listen, on a machine that is busy with others.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Bytes of a failed start's output that the error repeats.
const MOST_SAID: usize = 1024;

/// By which name the process is found among those of its sandbox.
const TAG: &str = "browser";

const SCRIPT: &str = include_str!("start.sh");

impl Browser {
    /// Makes sure that both programs listen.
    pub async fn ensure(&self) -> Result<(), BrowserError> {
        let visit = self.sandbox.visit().await?;
        if self.listens(&visit).await? {
            return Ok(());
        }
        let _turn = self.place.starts.lock().await;
        if self.listens(&visit).await? {
            return Ok(());
        }
        self.start(&visit).await
    }

    /// True while somebody waits for its start.
    pub fn is_starting(&self) -> bool {
        self.place.starts.try_lock().is_err()
    }

    async fn start(&self, visit: &Visit) -> Result<(), BrowserError> {
        let until = Instant::now() + PATIENCE;
        // One of the two may be about to be started again by the script that runs already.
        let reader = if self.runs().await? { None } else { Some(self.begin().await?) };
        let ready = async {
            while !self.listens(visit).await? {
                sleep(LOOK_EVERY).await;
            }
            Ok::<_, BrowserError>(())
        };
        let ended = async {
            match reader {
                Some(reader) => until_it_ends(reader).await,
                None => std::future::pending().await,
            }
        };
        let first = async {
            tokio::select! {
                ready = ready => ready,
                said = ended => Err(BrowserError::Start { sandbox: self.id(), said: said? }),
            }
        };
        let started = timeout_at(until, first).await;
        started.map_err(|_| BrowserError::Silent { sandbox: self.id() })??;
        // The first call need not wait for it; if it cannot be begun, that call says why.
        drop(self.session(visit).await);
        Ok(())
    }

    /// True if the script runs.
    async fn runs(&self) -> Result<bool, BrowserError> {
        let processes = self.sandbox.processes().list().await?;
        Ok(processes.iter().any(|process| {
            process.exit.is_none() && process.tag.as_ref().is_some_and(|tag| tag.as_bytes() == TAG.as_bytes())
        }))
    }

    async fn begin(&self) -> Result<ProcessReader, BrowserError> {
        let words = ["sh", "-s", TAG, &DEVTOOLS.to_string(), &TOOLS.to_string()].map(Into::into);
        let spec = ProcessSpec {
            argv: words.to_vec(),
            stdin: Stdin::Piped,
            tag: Some(TAG.into()),
            follow: Some(Reader::Skips),
            ..ProcessSpec::default()
        };
        let handle = match self.sandbox.start(spec).await {
            Err(EngineError::Refused(failure)) if failure.code == FailureCode::NotFound => {
                return Err(BrowserError::Start { sandbox: self.id(), said: failure.message });
            }
            started => started?,
        };
        let (reader, mut writer) = handle.split();
        // One that has ended does not read, and says why on its way out.
        let script = Bytes::from(format!("shift\n{SCRIPT}"));
        if writer.write(script).await.is_ok() {
            writer.close_stdin().await.ok();
        }
        Ok(reader)
    }

    async fn listens(&self, visit: &Visit) -> Result<bool, BrowserError> {
        for port in [TOOLS, DEVTOOLS] {
            match visit.connect_now(port).await {
                Ok(_) => {}
                Err(error) if is_closed(&error) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

/// Starts the browser of a new sandbox that is meant to have one, so that the first call need not
/// wait. Nobody waits for this: who uses the browser is told what is wrong.
pub fn warm(browser: Browser, kind: SandboxKind) {
    if !kind.has_browser() {
        return;
    }
    tokio::spawn(async move {
        if let Err(error) = browser.ensure().await {
            let error = warren_core::error_chain(&error);
            tracing::debug!(sandbox.id = %browser.sandbox.id(), error, "the browser is not ready");
        }
    });
}

/// The last line of a process that ends.
async fn until_it_ends(mut reader: ProcessReader) -> Result<String, EngineError> {
    let mut said = Vec::new();
    while let Some(event) = reader.next().await? {
        match event {
            ProcessEvent::Stderr { bytes, .. } => {
                let room = MOST_SAID.saturating_sub(said.len());
                said.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            ProcessEvent::Stdout { .. } | ProcessEvent::Missed { .. } => {}
            ProcessEvent::Exited(_) => break,
        }
    }
    let said = String::from_utf8_lossy(&said);
    let last = said.trim_end().lines().next_back().unwrap_or_default();
    let last: String = last.chars().filter(|char| !char.is_control()).collect();
    Ok(if last.is_empty() { "it ended without a word".to_owned() } else { last })
}
