use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Instant;

use tokio::sync::oneshot;
use warren_core::abandonable;

use super::Place;

/// Below everything that somebody waits for. Reading and writing are served in the same order.
const NICE: i32 = 10;

/// Says when dropped that nobody waits any more.
struct Waits(Arc<AtomicBool>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Place {
    /// Does heavy work on a thread of its own, at a low priority. If the caller goes away, or the
    /// work takes longer than it may, it is [abandoned](warren_core::abandoned); the place is free
    /// when it has ended.
    pub async fn work<R: Send + 'static>(
        self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, io::Error> {
        let gone = Arc::new(AtomicBool::new(false));
        let _waits = Waits(Arc::clone(&gone));
        let (tell, told) = oneshot::channel();
        let (begun, longest) = (Instant::now(), self.longest());
        let given_up =
            move || gone.load(Ordering::Acquire) || longest.is_some_and(|longest| begun.elapsed() >= longest);
        let body = move || {
            let place = self;
            // A machine that does not allow it still works.
            let _ignored = rustix::process::setpriority_process(None, NICE);
            let done = catch_unwind(AssertUnwindSafe(|| abandonable(given_up, work)));
            drop(place);
            drop(tell.send(done));
        };
        Builder::new().name("warren-heavy".to_owned()).spawn(body)?;
        match told.await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(io::Error::other("the thread ended without an answer")),
        }
    }
}
