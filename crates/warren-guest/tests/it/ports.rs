use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use warren_wire::guest::{Connection, FailureCode, Frame, FrameKind, Reply, Request};

use crate::support::{Agent, pattern};

const MEGABYTES: usize = 10 * 1024 * 1024;

fn connect(agent: &Agent, listener: &TcpListener) -> Result<(Connection<UnixStream>, TcpStream)> {
    let mut call = agent.open(&Request::Connect { port: listener.local_addr()?.port() })?;
    assert_eq!(call.reply()?, Reply::Done);
    Ok((call, listener.accept()?.0))
}

/// Reads data frames until End.
fn read_all(call: &mut Connection<UnixStream>) -> Result<Vec<u8>> {
    let mut seen = Vec::new();
    loop {
        let frame = call.next_frame()?.context("closed before End")?;
        match frame.kind {
            FrameKind::End => return Ok(seen),
            kind => {
                assert_eq!(kind, FrameKind::Data);
                seen.extend_from_slice(&frame.payload);
            }
        }
    }
}

#[test]
fn megabytes_pass_both_ways_and_each_ends_on_its_own() -> Result<()> {
    let agent = Agent::start()?;
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(address) else { continue };
        let (mut call, mut port) = connect(&agent, &listener)?;
        let (inward, outward) = (pattern(MEGABYTES, 1), pattern(MEGABYTES, 2));
        std::thread::scope(|scope| -> Result<()> {
            let mut host = call.stream().try_clone()?;
            let data = &inward;
            scope.spawn(move || {
                for chunk in data.chunks(50_000) {
                    host.write_all(&Frame::header(FrameKind::Data, chunk.len())).unwrap();
                    host.write_all(chunk).unwrap();
                }
                host.write_all(&Frame::header(FrameKind::End, 0)).unwrap();
            });
            let mut reader = port.try_clone()?;
            let received = scope.spawn(move || {
                let mut seen = Vec::new();
                reader.read_to_end(&mut seen).map(|_| seen)
            });
            // The port answers only after it has seen the end of what it was sent.
            assert!(received.join().unwrap()? == inward);
            let data = &outward;
            scope.spawn(move || {
                port.write_all(data).unwrap();
                port.shutdown(Shutdown::Write).unwrap();
            });
            assert!(read_all(&mut call)? == outward);
            assert_eq!(call.next_frame()?, None);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn the_port_may_end_first() -> Result<()> {
    let agent = Agent::start()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (mut call, mut port) = connect(&agent, &listener)?;
    port.write_all(b"hello")?;
    port.shutdown(Shutdown::Write)?;
    assert_eq!(read_all(&mut call)?, b"hello");
    call.send_data(b"still here")?;
    call.send_end()?;
    let mut seen = Vec::new();
    port.read_to_end(&mut seen)?;
    assert_eq!(seen, b"still here");
    assert_eq!(call.next_frame()?, None);
    Ok(())
}

#[test]
fn a_closed_port_is_not_found() -> Result<()> {
    let agent = Agent::start()?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let failure = agent.refusal(&Request::Connect { port })?;
    assert_eq!(failure.code, FailureCode::NotFound, "{failure}");
    assert!(failure.message.contains(&port.to_string()));
    Ok(())
}

#[test]
fn a_host_that_leaves_closes_the_port_and_what_it_sent_arrives() -> Result<()> {
    let agent = Agent::start()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (mut call, mut port) = connect(&agent, &listener)?;
    let descriptors = agent.open_descriptors()?;
    call.send_data(&[9; 100_000])?;
    drop(call);
    let mut seen = Vec::new();
    port.read_to_end(&mut seen)?;
    assert_eq!(seen.len(), 100_000);
    agent.eventually("both sockets are closed", || agent.open_descriptors().unwrap() <= descriptors - 2)
}

#[test]
fn a_side_that_does_not_read_holds_the_other_back() -> Result<()> {
    let agent = Agent::start()?;
    let before = agent.resident_bytes()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (mut call, mut port) = connect(&agent, &listener)?;
    let data = pattern(MEGABYTES, 5);
    std::thread::scope(|scope| -> Result<()> {
        let sent = &data;
        scope.spawn(move || {
            port.write_all(sent).unwrap();
            drop(port);
        });
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(agent.resident_bytes()?.saturating_sub(before) < 2 * 1024 * 1024);
        assert!(read_all(&mut call)? == data);
        Ok(())
    })
}
