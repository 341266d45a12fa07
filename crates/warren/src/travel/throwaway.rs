//! Forks that a command makes for its own use, and removes however it ends.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use warren_wire::api;

use crate::error::CliError;

/// The time that work may take to end after it was interrupted.
const PATIENCE: Duration = Duration::from_secs(10);

/// The forks that exist now. Clones share them.
#[derive(Clone)]
pub(crate) struct Forks {
    state: Arc<Mutex<State>>,
    remove: Arc<dyn Fn(&str) + Send + Sync>,
}

#[derive(Default)]
struct State {
    ids: Vec<String>,
    interrupted: bool,
}

/// A fork. Dropping it removes it.
pub(crate) struct Fork {
    pub(crate) id: String,
    forks: Forks,
}

impl Forks {
    fn new(remove: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { state: Arc::default(), remove: Arc::new(remove) }
    }

    /// Takes charge of the one fork that was made.
    pub(crate) fn first_of(&self, made: api::Forks) -> Result<Fork, CliError> {
        let fork = made.sandboxes.into_iter().next();
        self.keep(fork.ok_or_else(|| CliError::new("the server answered with no fork"))?.sandbox_id)
    }

    /// Takes charge of a fork. After an interruption it is removed at once.
    fn keep(&self, id: String) -> Result<Fork, CliError> {
        let mut state = self.state.lock();
        let interrupted = state.interrupted;
        state.ids.push(id.clone());
        drop(state);
        let fork = Fork { id, forks: self.clone() };
        if interrupted { Err(CliError::interrupted()) } else { Ok(fork) }
    }

    fn interrupt(&self) {
        let mut state = self.state.lock();
        state.interrupted = true;
        let ids = std::mem::take(&mut state.ids);
        drop(state);
        ids.iter().for_each(|id| (self.remove)(id));
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        let mut state = self.forks.state.lock();
        let here = state.ids.iter().position(|id| *id == self.id);
        if let Some(here) = here {
            state.ids.swap_remove(here);
            drop(state);
            (self.forks.remove)(&self.id);
        }
    }
}

/// Does work that makes forks. A signal that asks this process to end removes them first.
pub(crate) fn with_forks<T: Send + 'static>(
    remove: impl Fn(&str) + Send + Sync + 'static,
    work: impl FnOnce(&Forks) -> Result<T, CliError> + Send + 'static,
) -> Result<T, CliError> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(CliError::new)?;
    let handle = signals.handle();
    let forks = Forks::new(remove);
    let (tell, told) = mpsc::channel();
    let interrupter = tell.clone();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            drop(interrupter.send(None));
        }
    });
    let working = forks.clone();
    std::thread::spawn(move || drop(tell.send(Some(work(&working)))));
    let first = told.recv().map_err(CliError::new)?;
    let result = match first {
        Some(result) => result,
        None => {
            forks.interrupt();
            // The work puts the terminal back as it was. A second signal ends the wait.
            drop(told.recv_timeout(PATIENCE));
            Err(CliError::interrupted())
        }
    };
    handle.close();
    // Work whose fork was taken away fails in many ways; the reason is the interruption.
    if forks.state.lock().interrupted { Err(CliError::interrupted()) } else { result }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> (Arc<Mutex<Vec<String>>>, Forks) {
        let removed: Arc<Mutex<Vec<String>>> = Arc::default();
        let list = Arc::clone(&removed);
        (removed, Forks::new(move |id| list.lock().push(id.to_owned())))
    }

    #[test]
    fn a_fork_is_removed_once_when_it_is_dropped() {
        let (removed, forks) = recording();
        drop(forks.keep("a".to_owned()).unwrap());
        forks.interrupt();
        assert_eq!(*removed.lock(), ["a"]);
    }

    #[test]
    fn an_interruption_removes_what_there_is_and_what_comes_late() {
        let (removed, forks) = recording();
        let fork = forks.keep("a".to_owned()).unwrap();
        forks.interrupt();
        drop(fork);
        assert!(forks.keep("late".to_owned()).is_err());
        assert_eq!(*removed.lock(), ["a", "late"]);
    }

    #[test]
    fn work_that_fails_leaves_no_fork() {
        let (removed, _) = recording();
        let list = Arc::clone(&removed);
        let failed: Result<(), CliError> = with_forks(
            move |id| list.lock().push(id.to_owned()),
            |forks| {
                let _fork = forks.keep("a".to_owned())?;
                Err(CliError::new("no"))
            },
        );
        assert!(failed.is_err());
        assert_eq!(*removed.lock(), ["a"]);
    }
}
