//! Reaching an agent. A backend tries once and never waits; whoever has to wait for a full queue does so here, without a thread.

use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};
use warren_core::{Isolation, IsolationError, IsolationErrorKind, SandboxId};

/// How long a full queue of callers is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The first wait; each is twice as long as the one before, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// A new connection to the agent, as soon as it takes one more caller, within `patience`.
pub(crate) async fn dial(
    backend: &dyn Isolation,
    id: &SandboxId,
    patience: Duration,
) -> Result<UnixStream, IsolationError> {
    let deadline = Instant::now() + patience;
    let mut wait = FIRST_WAIT;
    loop {
        match connect(backend, id) {
            Err(error) if error.kind == IsolationErrorKind::Busy && Instant::now() < deadline => {
                sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            answer => return answer,
        }
    }
}

/// Connecting takes some microseconds and never waits, so it needs no thread of its own.
fn connect(backend: &dyn Isolation, id: &SandboxId) -> Result<UnixStream, IsolationError> {
    let stream = StdStream::from(backend.dial(id)?);
    stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream)).map_err(|error| {
        let action = format!("use a connection to the agent of {id}");
        IsolationError::caused(IsolationErrorKind::Host, action, error)
    })
}
