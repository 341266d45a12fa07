//! A sandbox whose backend is away: nothing is known of it, and so nothing is given up. It is seen
//! again when the backend answers.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::time::timeout;
use warren_core::{Event, Isolation, IsolationErrorKind, SandboxId};

use super::Driver;

/// How long a backend may take to say that it knows the sandbox.
const PATIENCE: Duration = Duration::from_secs(5);

impl Driver {
    /// True if what looks like the end of the sandbox is only that its backend is away, or was for
    /// a moment.
    pub(super) async fn is_out_of_sight(&mut self) -> bool {
        let look = |backend: &dyn Isolation, id: &SandboxId| {
            backend.pulse(id)?;
            backend.watch(id)
        };
        let why = match timeout(PATIENCE, self.isolate(look)).await {
            Ok(Ok(watch)) if !has_ended(&watch) => {
                self.watch_over(watch);
                self.see_again();
                return true;
            }
            Ok(Err(error)) if error.kind == IsolationErrorKind::Away => error.to_string(),
            Ok(_) => return false,
            Err(_) => "it does not answer".to_owned(),
        };
        self.cell.backend.set_away(Some(why));
        if !std::mem::replace(&mut self.out_of_sight, true) {
            self.emit(Event::SandboxUnreachable { backend: self.record.backend.clone() });
        }
        true
    }

    /// Its end is watched again.
    pub(super) fn see_again(&mut self) {
        if std::mem::take(&mut self.out_of_sight) {
            self.cell.backend.set_away(None);
            self.emit(Event::SandboxReachable { backend: self.record.backend.clone() });
        }
    }
}

/// True if a watched sandbox has ended already, as far as that can be told.
fn has_ended(watch: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&at_once)) != Ok(0)
}
