use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use warren_wire::guest::{CallError, Connection, Request};

use crate::support::{Agent, start};

/// Stops every child of the agent that it sees, again and again.
fn stop_children(agent: u32, over: &AtomicBool) {
    let children = format!("/proc/{agent}/task/{agent}/children");
    while !over.load(Ordering::Relaxed) {
        for pid in std::fs::read_to_string(&children).unwrap_or_default().split_whitespace() {
            if let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) {
                kill_process(pid, Signal::STOP).ok();
            }
        }
    }
}

#[test]
fn a_child_that_is_stopped_before_it_executes_is_told_of_and_stops_nobody_else() -> Result<()> {
    let agent = Agent::start()?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| stop_children(agent.pid(), &over));
        }
        let outcome = start_until_refused(&agent);
        over.store(true, Ordering::Relaxed);
        outcome
    })?;
    assert_eq!(agent.run("echo after")?.stdout, b"after\n");
    Ok(())
}

/// Every start is answered: the child executed and was stopped then, or it is said that it could
/// not.
fn start_until_refused(agent: &Agent) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(50);
    while Instant::now() < until {
        match Connection::ask(agent.dial()?, &Request::Start(start(&["true"]))) {
            Ok(_) => {}
            Err(CallError::Failed(failure)) if failure.message.contains("was stopped before") => {
                return Ok(());
            }
            Err(other) => bail!("{other}"),
        }
    }
    bail!("no child was caught on its way")
}
