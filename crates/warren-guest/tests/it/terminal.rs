use anyhow::Result;
use warren_wire::guest::{Control, FailureCode, Reply, Request, Start, TerminalSize};

use crate::support::{Agent, shell};

fn terminal(script: &str) -> Start {
    Start { terminal: Some(TerminalSize { columns: 100, rows: 30 }), ..shell(script) }
}

#[test]
fn a_terminal_has_its_size_and_is_the_controlling_one() -> Result<()> {
    let agent = Agent::start()?;
    let output =
        agent.follow(terminal("stty size; tty < /dev/tty >/dev/null && echo yes; echo $TERM"))?.finish()?;
    assert_eq!((output.text().as_str(), output.code()), ("30 100\r\nyes\r\nxterm-256color\r\n", Some(0)));
    Ok(())
}

#[test]
fn a_terminal_can_be_resized_by_its_follower_and_by_call() -> Result<()> {
    let agent = Agent::start()?;
    let script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut follower = agent.follow(terminal(script))?;
    follower.read_until("ready")?;
    follower.connection.send_control(&Control::Resize(TerminalSize { columns: 90, rows: 20 }))?;
    follower.read_until("20 90")?;
    let resize =
        |columns| Request::Resize { process: follower.selector(), size: TerminalSize { columns, rows: 10 } };
    assert_eq!(agent.ask(&resize(80))?, Reply::Done);
    follower.read_until("10 80")?;
    follower.connection.send_control(&Control::Signal { signal: 9 })?;
    assert_eq!(follower.finish()?.code(), Some(137));
    Ok(())
}

#[test]
fn control_c_interrupts_and_control_d_ends() -> Result<()> {
    let agent = Agent::start()?;
    let mut follower =
        agent.follow(terminal("trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done"))?;
    follower.read_until("ready")?;
    follower.connection.send_data(b"\x03")?;
    let output = follower.finish()?;
    assert!(output.text().contains("caught"));
    assert_eq!(output.code(), Some(5));

    let mut follower = agent.follow(terminal("cat; echo over"))?;
    follower.connection.send_data(b"hello\n")?;
    follower.read_until("hello\r\nhello\r\n")?;
    follower.connection.send_end()?;
    let output = follower.finish()?;
    assert_eq!((output.text().as_str(), output.code()), ("over\r\n", Some(0)));
    Ok(())
}

#[test]
fn a_terminal_passes_many_bytes_before_the_exit() -> Result<()> {
    let agent = Agent::start()?;
    for _ in 0..5 {
        let output = agent.follow(terminal("stty -opost; seq 1 100000"))?.finish()?;
        let expected: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
        assert!(output.text() == expected, "{} of {}", output.stdout.len(), expected.len());
    }
    Ok(())
}

#[test]
fn a_terminal_belongs_to_its_user() -> Result<()> {
    let agent = Agent::start()?;
    let start = Start {
        user: Some("65534".into()),
        cwd: Some("/".into()),
        ..terminal("stat -L -c %u /proc/self/fd/0")
    };
    assert_eq!(agent.follow(start)?.finish()?.text(), "65534\r\n");
    Ok(())
}

#[test]
fn a_process_without_terminal_cannot_be_resized() -> Result<()> {
    let agent = Agent::start()?;
    let follower = agent.follow(shell("sleep 5"))?;
    let size = TerminalSize { columns: 1, rows: 1 };
    let failure = agent.refusal(&Request::Resize { process: follower.selector(), size })?;
    assert_eq!(failure.code, FailureCode::WrongKind);
    Ok(())
}
