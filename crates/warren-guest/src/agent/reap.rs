use std::time::Instant;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus};
use warren_wire::guest::{Exit, ExitCause};

use super::{Agent, Course};
use crate::poll::Token;
use crate::process::millis;
use crate::ring::Stream;
use crate::sys;
use crate::timers::Timer;

/// Pipes of ended processes that are still read; beyond this the oldest is closed.
const MAX_LEFTOVERS: usize = 1024;
/// Size of the kernel's record of one signal; its number comes first.
const SIGNAL_RECORD: usize = 128;

impl Agent {
    /// Takes the signals that have come.
    pub(super) fn take_signals(&mut self) -> Course {
        let mut records = [0u8; SIGNAL_RECORD * 4];
        let count = rustix::io::read(&self.signals, &mut records).unwrap_or(0);
        let stops = records[..count].chunks_exact(SIGNAL_RECORD).any(|record| {
            let number = record.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
            number == libc::SIGTERM || number == libc::SIGINT
        });
        if stops { Course::Stop } else { Course::On }
    }

    /// Reaps every child that has ended, orphans of the sandbox included.
    pub(super) fn reap(&mut self) {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if let Some(id) = self.processes.reaped(pid.as_raw_nonzero().get()) {
                        self.finish(id, status);
                    }
                }
                // All processes of a sandbox descend from the agent, so without a child it is alone.
                Err(Errno::CHILD) => return self.rest_machine(),
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn finish(&mut self, id: u64, status: WaitStatus) {
        let now = Instant::now();
        let sources = self.processes.with(id, |process| {
            for stream in [Stream::Stdout, Stream::Stderr] {
                process.fill_at_end(stream);
            }
            let (code, cause) = match status.terminating_signal() {
                Some(signal) => (128 + signal, ExitCause::Signalled { signal }),
                None => (status.exit_status().unwrap_or(0), ExitCause::Exited),
            };
            process.exit = Some(Exit {
                code,
                cause: if process.timed_out { ExitCause::TimedOut } else { cause },
                duration_ms: millis(now.saturating_duration_since(process.started)),
                output_bytes: process.ring.end(),
            });
            if let Some(at) = process.deadline {
                self.timers.cancel(at, Timer::Timeout { process: id });
            }
            process.stdin = None;
            process.release_held_places();
            [process.stdout.take(), process.stderr.take()]
        });
        for source in sources.into_iter().flatten().flatten() {
            self.keep_reading(source);
        }
        self.dismiss_writers(id);
        self.processes.finished(id, now);
        if !self.sweeping {
            self.sweep(now);
        }
        self.changed.insert(id);
    }

    fn keep_reading(&mut self, source: crate::poll::Watched) {
        self.last_leftover += 1;
        let mut source = source.renamed(&self.poller, Token::Leftover(self.last_leftover));
        if self.leftovers.len() >= MAX_LEFTOVERS {
            self.leftovers.pop_first();
        }
        if source.watch(&self.poller, EventFlags::IN).is_ok() {
            self.leftovers.insert(self.last_leftover, source);
        }
    }

    pub(super) fn read_leftover(&mut self, id: u64) {
        self.scratch();
        let Some(source) = self.leftovers.get(&id) else { return };
        match rustix::io::read(source, &mut self.scratch) {
            Ok(count) if count > 0 => {}
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(_) | Err(_) => {
                self.leftovers.remove(&id);
            }
        }
    }

    /// Kills a process whose time is over, and all of its group.
    pub(super) fn time_out(&mut self, id: u64, now: Instant) {
        let Some(process) = self.processes.get_mut(id) else { return };
        if process.exit.is_none() && process.deadline.is_some_and(|at| at <= now) {
            process.timed_out = true;
            sys::kill(process.pid, sys::Aim::Group, libc::SIGKILL).ok();
        }
    }
}
