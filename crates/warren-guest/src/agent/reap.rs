use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus};
use warren_wire::guest::{Exit, ExitCause};

use super::{Agent, Loop};
use crate::poll::Token;
use crate::process::{Filled, millis};
use crate::ring::Stream;
use crate::sys;
use crate::timers::Timer;

/// Pipes of ended processes that are still read; beyond this the oldest is closed.
const MAX_LEFTOVERS: usize = 1024;
/// Reads of each pipe when a process has ended, before others get their turn.
const LAST_READS: usize = 16;
/// Size of the kernel's record of one signal. It begins with four numbers: which signal, an error,
/// how it was sent, and by whom.
const SIGNAL_RECORD: usize = 128;
/// How long processes may take to end when the machine outside goes down.
const LEAVE: Duration = Duration::from_millis(1500);

impl Agent {
    /// Takes the signals that have come.
    pub(super) fn take_signals(&mut self) -> Loop {
        let mut records = [0u8; SIGNAL_RECORD * 4];
        let count = rustix::io::read(&self.signals, &mut records).unwrap_or(0);
        let told = records[..count].chunks_exact(SIGNAL_RECORD).any(|record| {
            let signal = Signal::read(record);
            [libc::SIGTERM, libc::SIGINT].contains(&signal.number)
                && (!self.is_init || signal.is_from_above())
        });
        match told {
            true if self.is_init => self.leave(),
            true => Loop::Stop,
            false => Loop::On,
        }
    }

    /// The machine outside goes down: asks all processes to end, and ends when they have or their
    /// time is over.
    fn leave(&mut self) -> Loop {
        if !self.leaving {
            self.leaving = true;
            self.timers.set(Instant::now() + LEAVE, Timer::Leave);
            // None to be told is as good.
            sys::tell_all(libc::SIGTERM).ok();
        }
        self.reap()
    }

    /// Reaps every child that has ended, orphans of the sandbox included.
    pub(super) fn reap(&mut self) -> Loop {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let pid = pid.as_raw_nonzero().get();
                    match self.processes.reaped(pid) {
                        Some(id) => self.finish(id, status),
                        None => self.end_elevation(pid, status),
                    }
                }
                // All processes of a sandbox descend from the agent, so without a child it is
                // alone.
                Err(Errno::CHILD) => {
                    self.rest_machine();
                    return if self.leaving { Loop::Stop } else { Loop::On };
                }
                Ok(None) | Err(_) => return Loop::On,
            }
        }
    }

    fn finish(&mut self, id: u64, status: WaitStatus) {
        let now = Instant::now();
        self.processes.set_limit(id, now);
        self.processes.with(id, |process| {
            let (code, cause) = match status.terminating_signal() {
                Some(signal) => (128 + signal, ExitCause::Signalled { signal }),
                None => (status.exit_status().unwrap_or(0), ExitCause::Exited),
            };
            let duration_ms = millis(now.saturating_duration_since(process.started));
            process.ended = Some(Exit { code, cause, duration_ms, output_bytes: 0 });
            process.stdin = None;
            if process.until_closed {
                // Most have no background children, so that this reaches the end of both. Others
                // may write without end.
                for stream in [Stream::Stdout, Stream::Stderr] {
                    (0..LAST_READS).take_while(|_| process.fill(stream) == Filled::Some).for_each(drop);
                }
                process.rearm(&self.poller);
            }
        });
        self.dismiss_writers(id);
        self.changed.insert(id);
        self.complete(id);
    }

    /// Makes the end of a process known, if it has ended and nothing more is waited for.
    pub(super) fn complete(&mut self, id: u64) {
        let now = Instant::now();
        let sources = self.processes.with(id, |process| {
            let ended = process.ended.filter(|_| process.exit.is_none() && !process.awaits_output())?;
            for stream in [Stream::Stdout, Stream::Stderr] {
                process.fill_at_end(stream);
            }
            process.exit = Some(Exit {
                cause: if process.timed_out { ExitCause::TimedOut } else { ended.cause },
                output_bytes: process.ring.end(),
                ..ended
            });
            if let Some(at) = process.deadline {
                self.timers.cancel(at, Timer::Timeout { process: id });
            }
            process.release_held_places();
            Some([process.stdout.take(), process.stderr.take()])
        });
        let Some(Some(sources)) = sources else { return };
        for source in sources.into_iter().flatten() {
            self.keep_reading(source);
        }
        self.processes.finished(id, now);
        if !self.sweeping {
            self.sweep(now);
        }
        self.changed.insert(id);
    }

    /// Sends a signal on somebody's behalf, who then waits no longer for what holds the output. A
    /// process that has ended already gets none: its pid may be another's.
    pub(super) fn send_signal(&mut self, id: u64, aim: sys::Aim, signal: i32) -> Result<(), Errno> {
        let process = self.processes.get_mut(id).ok_or(Errno::SRCH)?;
        if process.ended.is_none() {
            sys::kill(process.pid, aim, signal)?;
        }
        if signal != 0 {
            process.until_closed = false;
        }
        self.complete(id);
        Ok(())
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
            self.send_signal(id, sys::Aim::Group, libc::SIGKILL).ok();
        }
    }
}

/// The parts of a received signal that matter here.
#[derive(Debug, Clone, Copy)]
struct Signal {
    number: i32,
    code: i32,
    sender: i32,
}

impl Signal {
    fn read(record: &[u8]) -> Self {
        let field = |index: usize| {
            record
                .chunks_exact(4)
                .nth(index)
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(-1, i32::from_ne_bytes)
        };
        Self { number: field(0), code: field(2), sender: field(3) }
    }

    /// True if a process outside the sandbox sent it with `kill`. Such a process has no number in
    /// here, and no process in here can make a signal to another one look like this.
    fn is_from_above(self) -> bool {
        self.code == libc::SI_USER && self.sender == 0
    }
}
