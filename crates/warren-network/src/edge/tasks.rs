use std::sync::Arc;

use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::task::JoinSet;

/// Tasks that run for one connection besides its own future, and end with it.
#[derive(Debug, Clone, Default)]
pub(super) struct Tasks(Arc<Mutex<JoinSet<()>>>);

/// Ends all of a connection's tasks when it is dropped. They hold the set that they are in, so the
/// set alone would not.
#[derive(Debug)]
pub(super) struct Cut(Tasks);

impl Tasks {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    pub(super) fn cut_on_drop(&self) -> Cut {
        Cut(self.clone())
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.0.0.lock().abort_all();
    }
}

impl<F> Executor<F> for Tasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.spawn(async move { drop(future.await) });
    }
}
