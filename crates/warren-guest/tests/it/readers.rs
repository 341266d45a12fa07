use std::time::Duration;

use anyhow::{Result, bail};
use warren_wire::guest::{
    Attach, FailureCode, FrameKind, ProcessId, ProcessSelector, Reader, Reply, Request, Start, Stdin,
};

use crate::support::{Agent, Follower, Output, shell};

fn attach(agent: &Agent, process: ProcessId, from: u64, reader: Reader) -> Result<Follower> {
    let process = ProcessSelector::Id(process);
    Follower::new(agent.open(&Request::Attach(Attach { process, from, reader }))?)
}

/// The numbers from 1 on, a line each, as `seq` prints them.
fn numbers(upto: u64) -> Vec<u8> {
    (1..=upto).flat_map(|n| format!("{n}\n").into_bytes()).collect()
}

#[test]
fn an_ended_process_is_replayed_from_any_position() -> Result<()> {
    let agent = Agent::start()?;
    let process = agent.follow(shell("echo one; echo two >&2; echo three; exit 2"))?.started.process;
    agent.wait(process)?;
    let whole = attach(&agent, process, 0, Reader::Holds)?;
    assert_eq!(whole.started.position, 0);
    let output = whole.finish()?;
    assert_eq!((output.text().as_str(), output.stderr.as_slice()), ("one\nthree\n", &b"two\n"[..]));
    assert_eq!(output.code(), Some(2));
    let part = attach(&agent, process, 9, Reader::Skips)?.finish()?;
    assert_eq!(part.stdout.len() + part.stderr.len(), 5);
    let beyond = attach(&agent, process, u64::MAX, Reader::Holds)?;
    assert_eq!(beyond.started.position, 14);
    assert_eq!(beyond.finish()?.code(), Some(2));
    Ok(())
}

#[test]
fn attaching_at_the_end_tells_only_what_comes() -> Result<()> {
    let agent = Agent::start()?;
    let mut first =
        agent.follow(Start { stdin: Stdin::Piped, ..shell("echo old; read word; echo new $word") })?;
    first.read_until("old\n")?;
    let late = attach(&agent, first.started.process, u64::MAX, Reader::Skips)?;
    first.connection.send_data(b"one\n")?;
    assert_eq!((late.started.position, late.finish()?.text().as_str()), (4, "new one\n"));
    Ok(())
}

#[test]
fn attaching_to_nothing_is_refused() -> Result<()> {
    let agent = Agent::start()?;
    let process = ProcessSelector::Tag("none".into());
    let failure = agent.refusal(&Request::Attach(Attach { process, from: 0, reader: Reader::Holds }))?;
    assert_eq!(failure.code, FailureCode::NotFound);
    Ok(())
}

#[test]
fn several_readers_see_the_same() -> Result<()> {
    let agent = Agent::start()?;
    let first = agent.follow(shell("sleep 0.2; seq 1 200000"))?;
    let others = (0..4)
        .map(|_| attach(&agent, first.started.process, 0, Reader::Holds))
        .collect::<Result<Vec<_>>>()?;
    let readers: Vec<_> = std::iter::once(first).chain(others).collect();
    let expected = numbers(200_000);
    std::thread::scope(|scope| {
        let threads: Vec<_> = readers.into_iter().map(|reader| scope.spawn(|| reader.finish())).collect();
        for thread in threads {
            assert!(thread.join().unwrap().unwrap().stdout == expected);
        }
    });
    Ok(())
}

#[test]
fn a_skipping_reader_is_told_what_it_missed() -> Result<()> {
    let agent = Agent::start()?;
    let start = Start { follow: Some(Reader::Skips), ..shell("seq 1 1000000; exit 1") };
    let mut follower = agent.follow(start)?;
    // Nobody reads here, yet the process goes on to its end.
    agent.wait(follower.started.process)?;
    let expected = numbers(1_000_000);
    let (mut position, mut missed) = (0, 0);
    loop {
        let frame = follower.frame()?;
        match frame.kind {
            FrameKind::Stdout => {
                assert!(expected[position..position + frame.payload.len()] == frame.payload);
                position += frame.payload.len();
            }
            _ => match minicbor::decode(&frame.payload)? {
                Reply::Missed { bytes, position: next } => {
                    position += usize::try_from(bytes)?;
                    missed += bytes;
                    assert_eq!(position as u64, next);
                }
                Reply::Exited(exit) => {
                    assert_eq!((exit.code, exit.output_bytes), (1, expected.len() as u64));
                    break;
                }
                other => bail!("unexpected {other:?}"),
            },
        }
    }
    assert_eq!(position, expected.len());
    assert!(missed > 1_000_000, "missed {missed}");
    Ok(())
}

#[test]
fn a_holding_reader_that_dials_again_loses_no_byte() -> Result<()> {
    let agent = Agent::start()?;
    let expected = numbers(1_500_000);
    let mut follower = agent.follow(shell("seq 1 1500000"))?;
    let process = follower.started.process;
    let mut seen = Vec::new();
    let mut exit = None;
    let mut breaks = 0;
    while exit.is_none() {
        let quota = seen.len() + 700_000 + breaks * 1013;
        while seen.len() < quota && exit.is_none() {
            let frame = follower.frame()?;
            match frame.kind {
                FrameKind::Stdout => seen.extend_from_slice(&frame.payload),
                _ => match minicbor::decode(&frame.payload)? {
                    Reply::Exited(told) => exit = Some(told),
                    other => bail!("unexpected {other:?}"),
                },
            }
        }
        // Breaks off with bytes still in the socket and lets the process run into the full ring.
        drop(follower);
        std::thread::sleep(Duration::from_millis(100));
        follower = attach(&agent, process, seen.len() as u64, Reader::Holds)?;
        assert_eq!(follower.started.position, seen.len() as u64);
        breaks += 1;
    }
    assert!(breaks > 5);
    assert!(seen == expected);
    Ok(())
}

#[test]
fn a_broken_reader_does_not_end_the_process_nor_hold_it_for_ever() -> Result<()> {
    let agent = Agent::start()?;
    let follower = agent.follow(shell("seq 1 1000000; exit 8"))?;
    let process = follower.started.process;
    drop(follower);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(agent.processes()?[0].exit, None, "the place is held");
    assert_eq!(agent.wait(process)?.code, 8);
    Ok(())
}

#[test]
fn attaching_while_the_output_flows_continues_where_the_ring_begins() -> Result<()> {
    let agent = Agent::start()?;
    let Reply::Started(started) = agent.ask(&Request::Start(shell("seq 1 300000; sleep 0.3; echo end")))?
    else {
        bail!("not started")
    };
    agent.eventually("the ring has dropped something", || {
        agent.processes().is_ok_and(|rows| rows[0].kept_from > 0)
    })?;
    let follower = attach(&agent, started.process, 0, Reader::Holds)?;
    let position = follower.started.position;
    assert!(position > 0);
    let Output { stdout, missed, .. } = follower.finish()?;
    let mut expected = numbers(300_000);
    expected.extend_from_slice(b"end\n");
    assert!(stdout == expected[usize::try_from(position)?..]);
    assert!(missed.is_empty());
    Ok(())
}
