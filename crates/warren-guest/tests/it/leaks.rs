use anyhow::Result;
use warren_wire::guest::{FailureCode, Request, Start, TerminalSize};

use crate::support::{Agent, shell, start};

#[test]
fn ten_thousand_failed_starts_leave_nothing_behind() -> Result<()> {
    let agent = Agent::start()?;
    agent.run("true")?;
    agent.refusal(&Request::Start(start(&["no-such-program"])))?;
    let (descriptors, resident) = (agent.open_descriptors()?, agent.resident_bytes()?);
    let terminal = TerminalSize { columns: 80, rows: 24 };
    for n in 0..10_000 {
        let terminal = (n % 2 == 0).then_some(terminal);
        let failure = agent.refusal(&Request::Start(Start { terminal, ..start(&["no-such-program"]) }))?;
        assert_eq!(failure.code, FailureCode::NotFound);
    }
    assert_eq!(agent.children()?, [0u32; 0]);
    agent.eventually("all descriptors are closed", || agent.open_descriptors().unwrap() <= descriptors)?;
    assert!(agent.resident_bytes()?.saturating_sub(resident) < 1024 * 1024);
    Ok(())
}

#[test]
fn ended_processes_leave_no_descriptor() -> Result<()> {
    let agent = Agent::start()?;
    agent.run("true")?;
    let descriptors = agent.open_descriptors()?;
    let terminal = TerminalSize { columns: 80, rows: 24 };
    for n in 0..400 {
        let terminal = (n % 2 == 0).then_some(terminal);
        let stdin = warren_wire::guest::Stdin::Piped;
        agent.follow(Start { terminal, stdin, ..shell("echo x; exit 1") })?.finish()?;
    }
    agent.eventually("all descriptors are closed", || agent.open_descriptors().unwrap() <= descriptors)?;
    assert!(agent.processes()?.len() <= 256);
    assert_eq!(agent.children()?, [0u32; 0]);
    Ok(())
}

#[test]
fn orphans_are_reaped() -> Result<()> {
    let agent = Agent::start()?;
    for _ in 0..20 {
        agent.run("(sleep 0.2 & sleep 0.1 &) ; exit 0")?;
    }
    agent.eventually("no child is left, dead or alive", || agent.children().unwrap().is_empty())
}

#[test]
fn stopping_the_agent_takes_its_processes_along() -> Result<()> {
    let agent = Agent::start()?;
    let follower = agent.follow(shell("sleep 1000"))?;
    let proc = format!("/proc/{}", follower.started.pid);
    assert!(std::fs::exists(&proc)?);
    drop(agent);
    for _ in 0..12_000 {
        // Reaped by its new parent, which may take a moment; a zombie counts as gone.
        let status = std::fs::read_to_string(format!("{proc}/stat")).unwrap_or_default();
        if status.is_empty() || status.contains(") Z ") {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    anyhow::bail!("the process outlived the agent")
}
