//! Reaching an agent. A backend tries once and never waits; whoever has to wait for a full queue
//! does so here, without a thread.

use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};
use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::Backend;

/// How long a full queue of callers is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The first wait; each is twice as long as the one before, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// A new connection to the agent, as soon as it takes one more caller, within `patience`.
pub(crate) async fn dial(
    backend: &Backend,
    id: &SandboxId,
    patience: Duration,
) -> Result<UnixStream, IsolationError> {
    let deadline = Instant::now() + patience;
    let mut wait = FIRST_WAIT;
    loop {
        match connect(backend, id).await {
            Err(error) if error.kind == IsolationErrorKind::Busy && Instant::now() < deadline => {
                sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            answer => return answer,
        }
    }
}

/// A backend answers at once. That it does is its promise and not ours, so no thread that serves
/// requests waits for it.
async fn connect(backend: &Backend, id: &SandboxId) -> Result<UnixStream, IsolationError> {
    let (port, which) = (Arc::clone(&backend.port), id.clone());
    let stream = StdStream::from(backend.ask(move || port.dial(&which)).await?);
    stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream)).map_err(|error| {
        let action = format!("use a connection to the agent of {id}");
        IsolationError::caused(IsolationErrorKind::Host, action, error)
    })
}
