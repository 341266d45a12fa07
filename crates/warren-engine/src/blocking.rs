//! Ports block, and the engine runs on an async runtime: every call to one goes through here, onto a thread that may wait. Callers
//! come and go, and what must not be left half done goes on without them.

use std::panic::resume_unwind;

use warren_core::catalog::Catalog;

use crate::Engine;

/// Runs work that blocks on a thread of its own.
pub(crate) async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime is shutting down, and whoever waits goes with it.
        Err(_) => std::future::pending().await,
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

impl Engine {
    /// Asks the catalog something.
    pub(crate) async fn catalog<R: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Catalog) -> R + Send + 'static,
    ) -> R {
        let catalog = self.shared.parts.catalog.clone();
        blocking(move || work(catalog.as_ref())).await
    }
}
