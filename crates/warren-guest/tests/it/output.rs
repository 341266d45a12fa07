use std::time::{Duration, Instant};

use anyhow::Result;
use warren_wire::guest::{ExitCause, FrameKind, Reader, Request, SignalCall, Start};

use crate::support::{Agent, shell, start};

#[test]
fn the_two_streams_stay_apart_and_in_order() -> Result<()> {
    let agent = Agent::start()?;
    let script = "for n in 1 2 3; do echo out$n; sleep 0.1; echo err$n >&2; sleep 0.1; done";
    let mut follower = agent.follow(shell(script))?;
    let mut seen = Vec::new();
    loop {
        let frame = follower.frame()?;
        if frame.kind == FrameKind::Message {
            break;
        }
        seen.push((frame.kind, String::from_utf8(frame.payload)?));
    }
    let expected: Vec<_> = (1..=3)
        .flat_map(|n| [(FrameKind::Stdout, format!("out{n}\n")), (FrameKind::Stderr, format!("err{n}\n"))])
        .collect();
    assert_eq!(seen, expected);
    Ok(())
}

#[test]
fn all_output_arrives_before_the_exit() -> Result<()> {
    let agent = Agent::start()?;
    for _ in 0..50 {
        let output = agent.run("head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2; exit 9")?;
        assert_eq!((output.stdout.len(), output.stderr.len()), (60_000, 60_000));
        let exit = output.exit.unwrap();
        assert_eq!((exit.code, exit.output_bytes), (9, 120_000));
    }
    Ok(())
}

#[test]
fn a_holding_reader_gets_megabytes_unharmed() -> Result<()> {
    let agent = Agent::start()?;
    let output = agent.run("seq 1 2000000")?;
    let expected: String = (1..=2_000_000).map(|n| format!("{n}\n")).collect();
    assert!(output.text() == expected);
    assert!(output.missed.is_empty());
    assert_eq!(output.exit.unwrap().output_bytes, expected.len() as u64);
    Ok(())
}

#[test]
fn a_background_child_holding_the_pipe_delays_nothing_and_lives_on() -> Result<()> {
    let agent = Agent::start()?;
    let (go, done) = (agent.directory.path().join("go"), agent.directory.path().join("done"));
    let script = format!(
        "(while [ ! -e {} ]; do sleep 0.1; done; n=0; while [ $n -lt 3000 ]; do echo 0123456789012345678901234567890123456789; n=$((n+1)); done; echo fine > {}) & echo parent; exit 3",
        go.display(),
        done.display()
    );
    // It ends although the child has the pipe until it is told to go on.
    let output = agent.run(&script)?;
    assert_eq!((output.text().as_str(), output.code()), ("parent\n", Some(3)));
    std::fs::write(&go, "")?;
    // More than a pipe holds, so the child would block or be killed if nobody read.
    agent.eventually("the child has written everything", || std::fs::exists(&done).unwrap())
}

#[test]
fn a_stalled_holding_reader_stops_the_process_and_loses_nothing() -> Result<()> {
    let agent = Agent::start()?;
    agent.run("seq 1 100000")?;
    let before = agent.resident_bytes()?;
    let mut follower = agent.follow(start(&["cat", "/dev/zero"]))?;
    let mut held = 0;
    agent.eventually("the process waits", || {
        let before = std::mem::replace(&mut held, agent.processes().map_or(0, |rows| rows[1].kept_to));
        std::thread::sleep(Duration::from_millis(200));
        held > 0 && held == before
    })?;
    assert!(held < 1024 * 1024, "{held} bytes were taken although nobody reads");
    let grown = agent.resident_bytes()?.saturating_sub(before);
    assert!(grown < 8 * 1024 * 1024, "grew by {grown}");
    let mut read = 0;
    while read < 64 * 1024 * 1024 {
        let frame = follower.frame()?;
        assert!(frame.kind == FrameKind::Stdout && frame.payload.iter().all(|byte| *byte == 0));
        read += frame.payload.len();
    }
    let grown = agent.resident_bytes()?.saturating_sub(before);
    assert!(grown < 8 * 1024 * 1024, "grew by {grown}");
    Ok(())
}

#[test]
fn a_process_nobody_follows_never_waits() -> Result<()> {
    let agent = Agent::start()?;
    let started = agent.ask(&warren_wire::guest::Request::Start(shell("seq 1 1000000; exit 6")))?;
    let warren_wire::guest::Reply::Started(started) = started else { anyhow::bail!("not started") };
    let exit = agent.wait(started.process)?;
    assert_eq!((exit.code, exit.output_bytes), (6, 6_888_896));
    let row = agent.processes()?.remove(0);
    assert_eq!(row.kept_to, 6_888_896);
    assert!(row.kept_to - row.kept_from >= 128 * 1024);
    Ok(())
}

#[test]
fn a_reader_of_one_process_does_not_hold_up_another() -> Result<()> {
    let agent = Agent::start()?;
    let stalled = agent.follow(Start::clone(&start(&["yes"])))?;
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(agent.run("echo quick")?.text(), "quick\n");
    }
    assert!(began.elapsed() < Duration::from_secs(60));
    drop(stalled);
    Ok(())
}

#[test]
fn streams_that_alternate_with_every_write_keep_flowing() -> Result<()> {
    let agent = Agent::start()?;
    // Written by one program without pause, so that runs of a few bytes fill the ring with changes
    // of stream.
    let script = "n=0; while [ $n -lt 60000 ]; do echo a; echo b >&2; n=$((n+1)); done";
    let mut follower = agent.follow(shell(script))?;
    let (mut out, mut err) = (0, 0);
    loop {
        let frame = follower.frame()?;
        match frame.kind {
            FrameKind::Stdout => out += frame.payload.len(),
            FrameKind::Stderr => err += frame.payload.len(),
            _ => break,
        }
    }
    assert_eq!((out, err), (120_000, 120_000));
    Ok(())
}

/// A process that ends at once, with a child that holds its output until somebody writes to the
/// FIFO `go`.
fn leaves_a_child(agent: &Agent) -> Result<Start> {
    let go = agent.directory.path().join("go");
    rustix::fs::mknodat(rustix::fs::CWD, &go, rustix::fs::FileType::Fifo, 0o600.into(), 0)?;
    let script = format!("(read word < {}; echo late; echo later >&2) & echo parent; exit 3", go.display());
    Ok(Start { until_closed: Some(true), ..shell(&script) })
}

fn is_gone(pid: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_process_that_runs_until_its_output_is_closed_waits_for_children() -> Result<()> {
    let agent = Agent::start()?;
    let mut follower = agent.follow(leaves_a_child(&agent)?)?;
    follower.read_until("parent\n")?;
    let pid = follower.started.pid;
    agent.eventually("it is reaped", || is_gone(pid))?;
    assert!(agent.processes()?.iter().all(|row| row.exit.is_none()), "its end is not told yet");
    std::fs::write(agent.directory.path().join("go"), "now\n")?;
    let output = follower.finish()?;
    assert_eq!((output.text().as_str(), output.stderr.as_slice()), ("late\n", &b"later\n"[..]));
    let exit = output.exit.unwrap();
    assert_eq!((exit.code, exit.cause, exit.output_bytes), (3, ExitCause::Exited, 18));
    Ok(())
}

#[test]
fn a_signal_by_call_ends_the_waiting_for_children() -> Result<()> {
    let agent = Agent::start()?;
    let mut ended = agent.follow(leaves_a_child(&agent)?)?;
    ended.read_until("parent\n")?;
    let pid = ended.started.pid;
    agent.eventually("it is reaped", || is_gone(pid))?;
    let signal = |process, signal| SignalCall { process, signal, group: false };
    agent.ask(&Request::Signal(signal(ended.selector(), 0)))?;
    assert!(agent.processes()?.iter().all(|row| row.exit.is_none()), "asking whether it lives ends nothing");
    agent.ask(&Request::Signal(signal(ended.selector(), 9)))?;
    assert_eq!(ended.finish()?.code(), Some(3));
    std::fs::write(agent.directory.path().join("go"), "now\n")?;

    let script = "sleep 30 & echo here; exec sleep 30";
    let mut running = agent.follow(Start { until_closed: Some(true), ..shell(script) })?;
    running.read_until("here\n")?;
    agent.ask(&Request::Signal(signal(running.selector(), 9)))?;
    assert_eq!(running.finish()?.exit.unwrap().cause, ExitCause::Signalled { signal: 9 });
    Ok(())
}

#[test]
fn a_timeout_ends_the_waiting_for_children() -> Result<()> {
    let agent = Agent::start()?;
    let start = Start { timeout_ms: Some(300), ..leaves_a_child(&agent)? };
    let output = agent.follow(start)?.finish()?;
    assert_eq!(output.exit.unwrap().cause, ExitCause::TimedOut);
    std::fs::write(agent.directory.path().join("go"), "now\n")?;
    Ok(())
}

#[test]
fn children_that_write_without_end_hold_up_nobody() -> Result<()> {
    let agent = Agent::start()?;
    let start = Start { until_closed: Some(true), follow: Some(Reader::Skips), ..shell("yes & exit 0") };
    let follower = agent.follow(start)?;
    let pid = follower.started.pid;
    agent.eventually("it is reaped", || is_gone(pid))?;
    agent.ping()?;
    agent.ask(&Request::Signal(SignalCall { process: follower.selector(), signal: 15, group: true }))?;
    assert_eq!(follower.finish()?.code(), Some(0));
    Ok(())
}
