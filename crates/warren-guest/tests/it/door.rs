use anyhow::Result;
use warren_wire::guest::{Reply, Request};

use crate::support::{Agent, shell};

#[test]
fn an_agent_that_lets_go_ends_calls_and_comes_back_with_its_processes() -> Result<()> {
    let agent = Agent::start()?;
    let mut waits = agent.open(&Request::Start(shell("sleep 1000")))?;
    let Reply::Started(started) = waits.reply()? else { anyhow::bail!("it starts") };
    let before = agent.open_descriptors()?;
    let mut call = agent.open(&Request::LetGo)?;
    assert_eq!(call.reply()?, Reply::Done);
    assert!(call.next_frame()?.is_none(), "it closes when all is let go");
    assert!(waits.next_frame().is_err() || waits.next_frame()?.is_none(), "nobody is connected");
    assert!(agent.dial().is_err(), "the door is closed");
    assert!(agent.open_descriptors()? < before);
    // The host takes the old socket away, and so lets it make another.
    std::fs::remove_file(agent.directory.path().join("a.sock"))?;
    agent.eventually("the door opens", || agent.dial().is_ok())?;
    agent.ping()?;
    let rows = agent.processes()?;
    assert!(rows.iter().any(|row| row.process == started.process && row.exit.is_none()), "{rows:?}");
    // And again.
    let mut call = agent.open(&Request::LetGo)?;
    assert_eq!(call.reply()?, Reply::Done);
    std::fs::remove_file(agent.directory.path().join("a.sock"))?;
    agent.eventually("the door opens again", || agent.ping().is_ok())
}
