//! Ports block, and the engine runs on an async runtime: every call to one goes through here, onto
//! a thread that may wait. Callers come and go, and what must not be left half done goes on without
//! them.

use std::panic::resume_unwind;

use rustix::process::{getpid, getpriority_process, setpriority_process};

/// Runs work that blocks on a thread of its own.
pub(crate) async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime is shutting down, and whoever waits goes with it.
        Err(_) => std::future::pending().await,
    }
}

/// The same for work that takes the processor for long, or makes processes: at the priority of the
/// program, which that of threads that many wait for may be ahead of.
pub(crate) async fn behind<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    blocking(move || {
        let _ahead = Ahead::leave();
        work()
    })
    .await
}

/// Where a thread stood before it fell back; it goes there again when this is dropped.
struct Ahead(Option<i32>);

impl Ahead {
    fn leave() -> Self {
        let program = getpriority_process(Some(getpid())).unwrap_or(0);
        let before = getpriority_process(None).ok().filter(|before| *before < program);
        Self(before.filter(|_| setpriority_process(None, program).is_ok()))
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            let _ignored = setpriority_process(None, before);
        }
    }
}

/// Does work to its end, whether or not the caller waits for it.
pub(crate) async fn finished<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime is shutting down here, too.
        Err(_) => std::future::pending().await,
    }
}
