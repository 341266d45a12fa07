//! When the figures of the sandbox's machine are renewed: before a process starts, and every so
//! often while one runs.

use std::time::Instant;

use super::Agent;
use crate::timers::Timer;

impl Agent {
    /// Before a process starts: what it reads is not old.
    pub(super) fn freshen_machine(&mut self) {
        let now = Instant::now();
        if let Some(machine) = self.machine.as_mut().filter(|machine| machine.is_stale(now)) {
            let alone = machine.due().is_none();
            machine.refresh(now, alone);
        }
    }

    /// A process has started: what it reads stays fresh.
    pub(super) fn keep_machine_fresh(&mut self) {
        if let Some(machine) = self.machine.as_mut().filter(|machine| machine.due().is_none()) {
            self.timers.set(machine.plan(Instant::now()), Timer::Machine);
        }
    }

    /// Something still runs, or the time would have been taken back.
    pub(super) fn renew_machine(&mut self, now: Instant) {
        if let Some(machine) = &mut self.machine {
            machine.refresh(now, false);
            self.timers.set(machine.plan(now), Timer::Machine);
        }
    }

    /// Nothing runs but the agent.
    pub(super) fn rest_machine(&mut self) {
        if let Some(at) = self.machine.as_mut().and_then(|machine| machine.rest()) {
            self.timers.cancel(at, Timer::Machine);
        }
    }
}
