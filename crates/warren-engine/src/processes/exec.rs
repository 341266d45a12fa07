use std::time::Duration;

use bytes::Bytes;
use warren_wire::guest::{Exit, Start, Started, Stdin};

use super::collect::Collector;
use super::{ExecResult, OutputCaps, ProcessEvent, ProcessReader};
use crate::EngineError;
use crate::guest::{ANSWER, Guest};

impl Guest {
    pub(super) async fn exec(
        &self,
        spec: Start,
        stdin: Bytes,
        caps: OutputCaps,
    ) -> Result<ExecResult, EngineError> {
        let (mut stdout, mut stderr) = (Collector::new(caps.stdout), Collector::new(caps.stderr));
        let see = |event: ProcessEvent| match event {
            ProcessEvent::Stdout { bytes, .. } => stdout.push(&bytes),
            ProcessEvent::Stderr { bytes, .. } => stderr.push(&bytes),
            // Nobody knows which of the two it was.
            ProcessEvent::Missed { .. } => {
                stdout.skip();
                stderr.skip();
            }
            ProcessEvent::Exited(_) => {}
        };
        let (started, exit) = self.run(spec, stdin, see).await?;
        Ok(ExecResult { started, exit, stdout: stdout.finish(), stderr: stderr.finish() })
    }

    /// Runs a process to its end, and shows what it writes.
    pub(crate) async fn run(
        &self,
        mut spec: Start,
        stdin: Bytes,
        see: impl FnMut(ProcessEvent),
    ) -> Result<(Started, Exit), EngineError> {
        spec.stdin = if stdin.is_empty() { Stdin::Null } else { Stdin::Piped };
        let limit = spec.timeout_ms.map(Duration::from_millis);
        let handle = self.start(spec).await?;
        let started = handle.started;
        let (mut reader, mut writer) = handle.split();
        let feed = async {
            // A process that reads none of its input, or not all, is no failure.
            if writer.write(stdin).await.is_ok() {
                writer.close_stdin().await.ok();
            }
            std::future::pending().await
        };
        let exit = tokio::select! {
            exit = in_time(limit, show(&mut reader, see)) => exit?,
            exit = feed => exit,
        };
        Ok((started, exit))
    }
}

async fn show(reader: &mut ProcessReader, mut see: impl FnMut(ProcessEvent)) -> Result<Exit, EngineError> {
    loop {
        match reader.next().await? {
            Some(ProcessEvent::Exited(exit)) => return Ok(exit),
            Some(event) => see(event),
            None => return Err(reader.cut_short()),
        }
    }
}

/// The agent ends a process at its time limit. One that does not is not waited for much longer.
async fn in_time(
    limit: Option<Duration>,
    work: impl Future<Output = Result<Exit, EngineError>>,
) -> Result<Exit, EngineError> {
    let Some(limit) = limit else { return work.await };
    match tokio::time::timeout(limit.saturating_add(ANSWER), work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(EngineError::TimedOut { what: "the command".to_owned(), seconds: limit.as_secs() }),
    }
}
