use std::time::Duration;

use warren_core::SandboxId;
use warren_engine::{EngineError, ProcessEvent, ProcessReader, ProcessSpec, Sandbox};
use warren_wire::guest::{FailureCode, Reader, Stdin};

use super::{CODE_PORT, CodeError, bundle};
use crate::desk::Desk;

/// How long a service may take until it listens. It does so before it loads anything that takes
/// time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a failed start's output that the error repeats.
const MOST_SAID: usize = 2048;

/// By which name the process is found among those of its sandbox.
const TAG: &str = "code-interpreter";

/// Starts the service, and waits until it listens.
pub(super) async fn start(desk: &Desk, sandbox: &Sandbox) -> Result<(), CodeError> {
    let spec = process(desk, sandbox.id());
    let handle = match sandbox.start(spec).await {
        Err(EngineError::Refused(failure)) if failure.code == FailureCode::NotFound => {
            return Err(CodeError::Start { sandbox: sandbox.id().clone(), said: failure.message });
        }
        started => started?,
    };
    let (reader, mut writer) = handle.split();
    // One that has ended does not read, and says why on its way out.
    if writer.write(bundle::script()).await.is_ok() {
        writer.close_stdin().await.ok();
    }
    let said = tokio::time::timeout(PATIENCE, until_it_listens(reader)).await;
    match said.map_err(|_| CodeError::Silent { sandbox: sandbox.id().clone() })?? {
        None => Ok(()),
        Some(said) => Err(CodeError::Start { sandbox: sandbox.id().clone(), said }),
    }
}

fn process(desk: &Desk, sandbox: &SandboxId) -> ProcessSpec {
    let record = desk.engine.live(sandbox);
    let env = record.iter().flat_map(|record| (desk.own_env)(record));
    ProcessSpec {
        argv: ["python3", "-u", "-", &CODE_PORT.to_string()].map(Into::into).to_vec(),
        env: env.map(|(name, value)| format!("{name}={value}").into()).collect(),
        // What lies in a directory that cells write to must not be taken for a part of the service.
        cwd: Some("/".into()),
        stdin: Stdin::Piped,
        tag: Some(TAG.into()),
        follow: Some(Reader::Skips),
        ..ProcessSpec::default()
    }
}

/// The first it says is its port, once it listens. Gives what was said instead.
async fn until_it_listens(mut reader: ProcessReader) -> Result<Option<String>, EngineError> {
    let mut said = Vec::new();
    while let Some(event) = reader.next().await? {
        match event {
            ProcessEvent::Stdout { .. } => return Ok(None),
            ProcessEvent::Stderr { bytes, .. } => {
                let room = MOST_SAID.saturating_sub(said.len());
                said.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            ProcessEvent::Missed { .. } => {}
            ProcessEvent::Exited(_) => break,
        }
    }
    let said = String::from_utf8_lossy(&said);
    // The last line of a traceback says what it is about.
    let last = said.trim_end().lines().next_back().unwrap_or_default();
    Ok(Some(if last.is_empty() { "it ended without a word".to_owned() } else { last.to_owned() }))
}
