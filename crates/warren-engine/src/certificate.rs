//! What can be seen of a sandbox at its end.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;
use warren_core::{DeathCause, DeathCertificate, Pulse, Usage};
use warren_wire::guest::{Frame, FrameDecoder, FrameKind, ProcessInfo, Reply, Request, parse_reply};

/// How much of the last output is kept.
const TAIL_BYTES: usize = 4096;
/// A sandbox that does not say what it runs is ended all the same.
const PATIENCE: Duration = Duration::from_millis(200);
const MOST_PROCESSES: usize = 64;
const MOST_COMMAND_CHARS: usize = 256;

/// The last bytes that somebody read of what the sandbox's processes wrote.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    bytes: VecDeque<u8>,
}

/// What was seen just before the end.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) last_output: String,
    pub(crate) processes: Vec<String>,
    pub(crate) usage: Option<Usage>,
}

/// Why and how a sandbox ends.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    pub(crate) cause: DeathCause,
    pub(crate) detail: String,
    pub(crate) files_kept: bool,
}

impl Tail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let surplus = (self.bytes.len() + bytes.len()).saturating_sub(TAIL_BYTES);
        self.bytes.drain(..surplus);
        self.bytes.extend(bytes);
    }

    pub(crate) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.bytes.make_contiguous()).into_owned()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes = VecDeque::new();
    }
}

impl Ending {
    pub(crate) fn certificate(self, evidence: Evidence, at_unix_ms: u64) -> DeathCertificate {
        DeathCertificate {
            cause: self.cause,
            detail: self.detail,
            at_unix_ms,
            last_output: evidence.last_output,
            processes: evidence.processes,
            usage: evidence.usage,
            snapshot: None,
            files_kept: self.files_kept,
        }
    }
}

/// Why the first process of a sandbox ended that nobody asked to end.
/// A life begins with a count of zero.
pub(crate) fn cause_of_exit(usage: Option<&Usage>) -> (DeathCause, String) {
    match usage {
        Some(usage) if usage.disk_exceeded => {
            (DeathCause::DiskFull, format!("it held {} bytes on disk, more than its limit", usage.disk_bytes))
        }
        Some(usage) if usage.oom_kills > 0 => (
            DeathCause::Oom,
            format!(
                "the kernel killed it for want of memory, with {} bytes in use at most",
                usage.memory_peak_bytes
            ),
        ),
        Some(_) | None => (DeathCause::Exit, "its first process ended".to_owned()),
    }
}

/// Whether a sandbox did something between two looks: more than one hundredth of a processor, or
/// any input or output.
pub(crate) fn did_something(
    before: Option<(Pulse, u64)>,
    now: Pulse,
    now_ms: u64,
    life_began_ms: u64,
) -> bool {
    // Starting up is no work: without an earlier look only the processor's time is judged, over the
    // whole life.
    let (then, then_ms) = before.unwrap_or((Pulse { cpu_ns: 0, ..now }, life_began_ms));
    let elapsed_ms = now_ms.saturating_sub(then_ms);
    let hundredth_ns = elapsed_ms.saturating_mul(10_000);
    now.connections > 0
        || now.io_bytes > then.io_bytes
        || now.cpu_ns.saturating_sub(then.cpu_ns) > hundredth_ns
}

/// Asks the agent what runs. Empty when it does not say in time.
pub(crate) async fn processes(stream: UnixStream) -> Vec<String> {
    let mut rows = Vec::new();
    // What came in time counts, whether or not there was more to come.
    drop(timeout(PATIENCE, list(stream, &mut rows)).await);
    rows
}

/// Collects rows until the agent has no more, something is wrong with what it sends, or there are
/// enough.
async fn list(mut stream: UnixStream, rows: &mut Vec<String>) -> Option<()> {
    let request = minicbor::to_vec(Request::List).ok()?;
    let mut message = Frame::header(FrameKind::Message, request.len()).to_vec();
    message.extend_from_slice(&request);
    stream.write_all(&message).await.ok()?;
    let mut decoder = FrameDecoder::default();
    let mut buffer = [0; 4096];
    loop {
        while let Some(frame) = decoder.next_frame().ok()? {
            let Ok(Reply::Processes(more)) = parse_reply(&frame.payload) else { return None };
            rows.extend(more.iter().filter(|process| process.exit.is_none()).map(row));
            if rows.len() >= MOST_PROCESSES {
                rows.drain(..rows.len() - MOST_PROCESSES);
                return Some(());
            }
        }
        let wanted = decoder.wanted().min(buffer.len());
        match stream.read(&mut buffer[..wanted]).await.ok()? {
            0 => return Some(()),
            count => decoder.push(&buffer[..count]),
        }
    }
}

fn row(process: &ProcessInfo) -> String {
    let mut row = process.pid.to_string();
    for word in &process.argv {
        row.push(' ');
        row.push_str(&word.to_text());
    }
    row.chars().take(MOST_COMMAND_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOOK: Pulse = Pulse { cpu_ns: 5_000_000, io_bytes: 100, connections: 0 };

    proptest! {
        #[test]
        fn the_tail_is_the_end_of_all_that_was_written(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..6000), 0..6)) {
            let mut tail = Tail::default();
            for piece in &pieces {
                tail.push(piece);
            }
            let all = pieces.concat();
            let expected = &all[all.len().saturating_sub(TAIL_BYTES)..];
            prop_assert_eq!(tail.text(), String::from_utf8_lossy(expected));
        }
    }

    #[test]
    fn a_sandbox_that_only_started_up_did_nothing() {
        assert!(!did_something(None, LOOK, 301_000, 1000));
    }

    #[test]
    fn processor_time_of_a_hundredth_input_output_and_connections_count_as_work() {
        let before = Some((LOOK, 1000));
        assert!(!did_something(before, LOOK, 61_000, 0));
        assert!(!did_something(before, Pulse { cpu_ns: 605_000_000, ..LOOK }, 61_000, 0));
        assert!(did_something(before, Pulse { cpu_ns: 605_000_001, ..LOOK }, 61_000, 0));
        assert!(did_something(before, Pulse { io_bytes: 101, ..LOOK }, 61_000, 0));
        assert!(did_something(before, Pulse { connections: 1, ..LOOK }, 61_000, 0));
    }

    #[test]
    fn what_the_kernel_counted_tells_why_a_sandbox_ended() {
        let killed = Usage { oom_kills: 1, ..Usage::default() };
        let full = Usage { disk_exceeded: true, ..killed };
        assert_eq!(cause_of_exit(Some(&killed)).0, DeathCause::Oom);
        assert_eq!(cause_of_exit(Some(&full)).0, DeathCause::DiskFull);
        assert_eq!(cause_of_exit(Some(&Usage::default())).0, DeathCause::Exit);
        assert_eq!(cause_of_exit(None).0, DeathCause::Exit);
    }
}
