use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use warren_wire::guest::{FailureCode, Frame, FrameKind, Reply, Request, Start, Stdin};

use crate::support::{Agent, pattern, shell, start};

fn piped(start: Start) -> Start {
    Start { stdin: Stdin::Piped, ..start }
}

#[test]
fn without_input_a_process_reads_the_end_at_once() -> Result<()> {
    let agent = Agent::start()?;
    let output = agent.follow(start(&["cat"]))?.finish()?;
    assert_eq!((output.stdout.len(), output.code()), (0, Some(0)));
    Ok(())
}

#[test]
fn megabytes_go_in_and_come_out() -> Result<()> {
    let agent = Agent::start()?;
    let data = pattern(8 * 1024 * 1024, 0);
    let mut follower = agent.follow(piped(start(&["cat"])))?;
    let stream = follower.connection.stream().try_clone()?;
    let sent = data.clone();
    let sender = std::thread::spawn(move || -> Result<()> {
        let mut stream = stream;
        for chunk in sent.chunks(100_000) {
            stream.write_all(&Frame::header(FrameKind::Data, chunk.len()))?;
            stream.write_all(chunk)?;
        }
        stream.write_all(&Frame::header(FrameKind::End, 0))?;
        Ok(())
    });
    let mut seen = Vec::new();
    while seen.len() < data.len() {
        seen.extend_from_slice(&follower.frame()?.payload);
    }
    sender.join().unwrap()?;
    assert!(seen == data);
    assert_eq!(follower.finish()?.code(), Some(0));
    Ok(())
}

#[test]
fn input_for_a_process_that_does_not_read_is_dropped() -> Result<()> {
    let agent = Agent::start()?;
    let mut follower = agent.follow(piped(shell("exec 0<&-; sleep 0.3; exit 4")))?;
    for _ in 0..20 {
        follower.connection.send_data(&pattern(10_000, 0))?;
    }
    assert_eq!(follower.finish()?.code(), Some(4));
    Ok(())
}

#[test]
fn a_process_that_reads_no_input_holds_the_sender_back_until_it_ends() -> Result<()> {
    let agent = Agent::start()?;
    let before = agent.resident_bytes()?;
    let follower = agent.follow(piped(shell("sleep 1; exit 4")))?;
    let mut stream = follower.connection.stream().try_clone()?;
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let sender = std::thread::spawn(move || {
        let frame = [Frame::header(FrameKind::Data, 100_000).as_slice(), &[7; 100_000]].concat();
        while stream.write_all(&frame).is_ok() {
            counter.fetch_add(frame.len(), Ordering::Relaxed);
        }
    });
    std::thread::sleep(Duration::from_millis(500));
    assert!(sent.load(Ordering::Relaxed) < 2_000_000);
    assert_eq!(follower.finish()?.code(), Some(4));
    // The agent closes the connection with the exit, so the sender ends too.
    sender.join().unwrap();
    assert!(agent.resident_bytes()?.saturating_sub(before) < 4 * 1024 * 1024);
    Ok(())
}

#[test]
fn input_calls_add_up_until_one_closes() -> Result<()> {
    let agent = Agent::start()?;
    let follower = agent.follow(piped(start(&["cat"])))?;
    let process = follower.selector();
    for (text, keep_open) in [("one ", true), ("two ", true), ("three", false)] {
        let mut call = agent.open(&Request::Input { process: process.clone(), keep_open })?;
        call.send_data(text.as_bytes())?;
        call.send_end()?;
        assert_eq!(call.reply()?, Reply::Done);
    }
    assert_eq!(follower.finish()?.text(), "one two three");
    let late = Request::Input { process, keep_open: false };
    assert_eq!(agent.refusal(&late)?.code, FailureCode::Ended);
    Ok(())
}

#[test]
fn a_half_closed_input_call_is_done_when_it_keeps_the_input_open() -> Result<()> {
    let agent = Agent::start()?;
    let follower = agent.follow(piped(start(&["head", "-c", "3"])))?;
    let mut call = agent.open(&Request::Input { process: follower.selector(), keep_open: true })?;
    call.send_data(b"abc")?;
    call.stream().shutdown(std::net::Shutdown::Write)?;
    assert_eq!(call.reply()?, Reply::Done);
    assert_eq!(follower.finish()?.text(), "abc");
    Ok(())
}

#[test]
fn a_follower_that_leaves_keeps_the_input_open_and_delivers_what_it_sent() -> Result<()> {
    let agent = Agent::start()?;
    let file = agent.directory.path().join("copy");
    let data = pattern(150_000, 0);
    let mut follower = agent.follow(piped(shell(&format!("sleep 0.3; cat > {}", file.display()))))?;
    let process = follower.selector();
    follower.connection.send_data(&data)?;
    let id = follower.started.process;
    drop(follower);
    let mut call = agent.open(&Request::Input { process, keep_open: false })?;
    call.send_data(b"tail")?;
    call.send_end()?;
    assert_eq!(call.reply()?, Reply::Done);
    assert_eq!(agent.wait(id)?.code, 0);
    let copy = std::fs::read(file)?;
    assert_eq!(copy.len(), data.len() + 4);
    assert!(copy.starts_with(&data) && copy.ends_with(b"tail"));
    Ok(())
}

#[test]
fn a_process_without_input_refuses_it() -> Result<()> {
    let agent = Agent::start()?;
    let follower = agent.follow(shell("sleep 5"))?;
    let failure = agent.refusal(&Request::Input { process: follower.selector(), keep_open: false })?;
    assert_eq!(failure.code, FailureCode::Ended);
    Ok(())
}
