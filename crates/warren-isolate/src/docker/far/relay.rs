//! Dialing an agent on another machine: the engine starts a relay of ours in the container, and
//! what it says and is told goes through a pair of sockets here.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Pair;
use std::sync::Arc;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::StartExecResults;
use futures_util::StreamExt as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use warren_core::SandboxId;

use super::super::client::{CallError, Calls};
use super::super::{Engine, container};
use super::Bells;
use crate::linux::DialError;

/// How often it is looked whether somebody still listens who has nothing more to say.
const GLANCE: Duration = Duration::from_secs(1);
/// How often it is tried to reach somebody who is paused.
const PAUSE: Duration = Duration::from_millis(250);

/// Starts a relay to the agent of a sandbox. In one that is paused none can be started: who dials
/// is let in, and heard when it goes on.
pub(in super::super) fn dial(engine: &Engine, bells: &Bells, id: &SandboxId) -> Result<OwnedFd, DialError> {
    let name = container(id);
    let relay = match engine.client.relay(&name) {
        Ok(relay) => Some(relay),
        Err(CallError::NotFound(_)) => return Err(DialError::NotFound),
        // Stopped or paused: an engine says both in the same way.
        Err(CallError::Conflict(_)) => match engine.client.inspect(&name).map(|seen| seen.state) {
            Ok(Some(state)) if state.paused == Some(true) => None,
            _ => return Err(DialError::Ended),
        },
        Err(error) => return Err(DialError::Failed(io::Error::other(error))),
    };
    let (ours, theirs) = Pair::pair().map_err(DialError::Failed)?;
    theirs.set_nonblocking(true).map_err(DialError::Failed)?;
    let Some(relay) = relay else {
        let place = Arc::clone(&bells.queue).try_acquire_owned().map_err(|_| DialError::Busy)?;
        let calls = engine.client.calls().clone();
        engine.client.spawn(async move {
            let relay = wait(&calls, &name, &theirs).await;
            drop(place);
            if let Some(relay) = relay {
                carry(relay, theirs).await;
            }
        });
        return Ok(ours.into());
    };
    engine.client.spawn(carry(relay, theirs));
    Ok(ours.into())
}

/// Waits until a relay can be started, or nobody is here any more who wants one.
async fn wait(calls: &Calls, name: &str, theirs: &Pair) -> Option<StartExecResults> {
    loop {
        tokio::time::sleep(PAUSE).await;
        let mut polled = [PollFd::new(theirs, PollFlags::empty())];
        if poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|happened| happened > 0) {
            return None;
        }
        match calls.relay(&calls.connected().await.ok()?, name).await {
            Err(Error::DockerResponseServerError { status_code: 409, .. }) => {}
            relay => return relay.ok(),
        }
    }
}

/// Carries bytes both ways until the relay has ended, or nobody is here to hear it.
async fn carry(relay: StartExecResults, theirs: Pair) {
    let (StartExecResults::Attached { mut output, mut input }, Ok(stream)) =
        (relay, UnixStream::from_std(theirs))
    else {
        return;
    };
    let (mut reader, mut writer) = stream.into_split();
    let up = async {
        drop(tokio::io::copy(&mut reader, &mut input).await);
        // The relay tells the agent that nothing more comes.
        drop(input.shutdown().await);
        // An agent that goes on is listened to as long as somebody is there.
        while reader.ready(Interest::READABLE).await.is_ok_and(|ready| !ready.is_write_closed()) {
            tokio::time::sleep(GLANCE).await;
        }
    };
    let down = async {
        while let Some(Ok(said)) = output.next().await {
            match said {
                LogOutput::StdOut { message } if writer.write_all(&message).await.is_err() => break,
                // Why it could not reach the agent.
                LogOutput::StdErr { message } => {
                    tracing::warn!(said = %String::from_utf8_lossy(&message).trim_end(), "a relay failed");
                }
                _ => {}
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}
