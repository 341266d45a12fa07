//! Death certificates: how and why sandboxes end.

use std::collections::VecDeque;

use warren_core::{DeathCause, DeathCertificate, Pulse, Usage};

/// How much of the last output is kept.
const TAIL_BYTES: usize = 4096;

/// The last bytes that were read of the output of a sandbox's processes.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    bytes: VecDeque<u8>,
}

/// The state of a sandbox just before its end.
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

/// Why the first process of a sandbox ended without a request. The kernel's counts begin at zero
/// with each life.
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

/// True if a sandbox did something between two looks: more than one hundredth of a processor, or
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
