use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use warren_wire::guest::{Exit, Start, Stdin};

use super::{ExecResult, Output, OutputCaps, ProcessEvent, ProcessReader};
use crate::EngineError;
use crate::guest::{ANSWER, Guest};

impl Guest {
    pub(super) async fn exec(
        &self,
        mut spec: Start,
        stdin: Bytes,
        caps: OutputCaps,
    ) -> Result<ExecResult, EngineError> {
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
        let (mut stdout, mut stderr) = (Collector::new(caps.stdout), Collector::new(caps.stderr));
        let collect = collect(&mut reader, &mut stdout, &mut stderr);
        let exit = tokio::select! {
            exit = in_time(limit, collect) => exit?,
            exit = feed => exit,
        };
        Ok(ExecResult { started, exit, stdout: stdout.finish(), stderr: stderr.finish() })
    }
}

async fn collect(
    reader: &mut ProcessReader,
    stdout: &mut Collector,
    stderr: &mut Collector,
) -> Result<Exit, EngineError> {
    loop {
        match reader.next().await? {
            Some(ProcessEvent::Stdout { bytes, .. }) => stdout.push(&bytes),
            Some(ProcessEvent::Stderr { bytes, .. }) => stderr.push(&bytes),
            // Nobody knows which of the two it was.
            Some(ProcessEvent::Missed { .. }) => {
                stdout.skip();
                stderr.skip();
            }
            Some(ProcessEvent::Exited(exit)) => return Ok(exit),
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

/// Keeps the beginning and the end of a stream of any length.
#[derive(Debug)]
struct Collector {
    head: Vec<u8>,
    head_cap: usize,
    tail: VecDeque<u8>,
    tail_cap: usize,
    total: u64,
    dropped: bool,
}

impl Collector {
    fn new(cap: usize) -> Self {
        let (tail_cap, head) = (cap / 2, Vec::new());
        Self { head, head_cap: cap - tail_cap, tail: VecDeque::new(), tail_cap, total: 0, dropped: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_cap - self.head.len()));
        self.head.extend_from_slice(first);
        let kept = &rest[rest.len() - rest.len().min(self.tail_cap)..];
        let excess = (self.tail.len() + kept.len()).saturating_sub(self.tail_cap);
        self.dropped |= excess > 0 || kept.len() < rest.len();
        self.tail.drain(..excess);
        self.tail.extend(kept);
    }

    /// Notes that something was lost here. What follows counts as the end.
    fn skip(&mut self) {
        self.head_cap = self.head.len();
        self.dropped = true;
    }

    fn finish(self) -> Output {
        let Self { mut head, tail, total, dropped, .. } = self;
        let dropped_at = dropped.then_some(head.len());
        let (first, second) = tail.as_slices();
        head.extend_from_slice(first);
        head.extend_from_slice(second);
        Output { bytes: head, total, dropped_at }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_kept_is_the_beginning_and_the_end(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
            cap in 0usize..100,
        ) {
            let mut collector = Collector::new(cap);
            pieces.iter().for_each(|piece| collector.push(piece));
            let output = collector.finish();
            let whole = pieces.concat();
            prop_assert_eq!(output.total, whole.len() as u64);
            prop_assert_eq!(output.bytes.len(), whole.len().min(cap));
            match output.dropped_at {
                None => prop_assert_eq!(output.bytes, whole),
                Some(at) => {
                    prop_assert!(whole.len() > cap);
                    prop_assert!(whole.starts_with(&output.bytes[..at]));
                    prop_assert!(whole.ends_with(&output.bytes[at..]));
                    prop_assert_eq!(at, cap - cap / 2);
                }
            }
        }
    }
}
