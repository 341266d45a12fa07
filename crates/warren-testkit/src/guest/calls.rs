use std::os::unix::net::UnixStream;
use std::sync::Arc;

use warren_wire::guest::{
    Failure, FailureCode, FrameKind, GENERATION, GuestUsage, Pong, ProcessSelector, Reply, Request, Start,
    TerminalSize,
};

use super::line::Line;
use super::process::Process;
use super::{Gone, Guest, code, files, follow, programs};

/// Takes one request and serves it to its end.
pub(super) fn serve(guest: &Arc<Guest>, connection: u64, stream: Arc<UnixStream>) -> Result<(), Gone> {
    let mut line = Line::new(stream);
    let Some(frame) = line.receive()? else { return Ok(()) };
    // A frozen agent has not read the request yet.
    drop(guest.awake()?);
    let request = match frame.kind {
        FrameKind::Message => minicbor::decode(&frame.payload)
            .map_err(|error| refuse(FailureCode::Invalid, format!("the request cannot be decoded: {error}"))),
        _ => Err(refuse(FailureCode::Invalid, "the first frame is not a message")),
    };
    match request {
        Ok(request) => open(guest, connection, line, request),
        Err(failure) => line.fail(guest, failure),
    }
}

fn open(guest: &Arc<Guest>, connection: u64, mut line: Line, request: Request) -> Result<(), Gone> {
    match request {
        Request::Ping => line.reply(guest, &Reply::Pong(pong(guest))),
        Request::Usage => {
            let usage = usage(guest)?;
            line.reply(guest, &Reply::Usage(usage))
        }
        Request::Start(start) => start_process(guest, connection, line, start),
        Request::Attach(attach) => {
            let found = guest.awake()?.find(&attach.process).map(|process| process.id);
            match found {
                Ok(process) => follow::follow(guest, connection, line, process, attach.from),
                Err(failure) => line.fail(guest, failure),
            }
        }
        Request::Input { process, keep_open } => input(guest, &mut line, &process, keep_open),
        Request::LetGo => line.fail(guest, refuse(FailureCode::Unsupported, "its door stays open")),
        Request::Signal(call) => {
            let answer = guest.awake()?.find_running(&call.process).map(|process| {
                process.signal(call.signal);
                Reply::Done
            });
            guest.changed.notify_all();
            line.answer(guest, answer)
        }
        Request::Resize { process, size } => {
            let answer = resize(guest, &process, size)?;
            line.answer(guest, answer)
        }
        Request::Wait { process } => {
            let found = guest.awake()?.find(&process).map(|process| process.id);
            match found {
                Ok(process) => follow::wait(guest, connection, line, process),
                Err(failure) => line.fail(guest, failure),
            }
        }
        Request::List => {
            let rows: Vec<_> = guest.awake()?.processes.values().map(Process::info).collect();
            if !rows.is_empty() {
                line.reply(guest, &Reply::Processes(rows))?;
            }
            line.send(guest, FrameKind::End, &[])
        }
        Request::File(call) => match files::check_user(call.user.as_ref()) {
            Ok(()) => files::serve(guest, line, call.operation),
            Err(failure) => line.fail(guest, failure),
        },
        Request::Connect { port } => connect(guest, line, port),
    }
}

fn pong(guest: &Guest) -> Pong {
    Pong { generation: GENERATION, version: "fake".to_owned(), uptime_ms: uptime_ms(guest) }
}

fn usage(guest: &Guest) -> Result<GuestUsage, Gone> {
    let state = guest.awake()?;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let running = count(state.processes.values().filter(|process| process.exit.is_none()).count());
    Ok(GuestUsage {
        processes: running + 1,
        running,
        connections: count(state.connections.len()),
        uptime_ms: uptime_ms(guest),
        ..GuestUsage::default()
    })
}

fn uptime_ms(guest: &Guest) -> u64 {
    u64::try_from(guest.began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn start_process(guest: &Arc<Guest>, connection: u64, line: Line, start: Start) -> Result<(), Gone> {
    if start.argv.first().is_none_or(|name| name.is_empty()) {
        return line.fail(guest, refuse(FailureCode::Invalid, "start a process: no program is named"));
    }
    let script = programs::script(guest, &start);
    let follows = start.follow.is_some();
    let (id, started) = {
        let mut state = guest.awake()?;
        state.last_process += 1;
        let process = Process::new(state.last_process, start, script);
        let (id, started) = (process.id, process.started(0));
        state.processes.insert(id, process);
        (id, started)
    };
    if follows {
        return follow::follow(guest, connection, line, id, 0);
    }
    line.reply(guest, &Reply::Started(started))
}

fn input(guest: &Guest, line: &mut Line, process: &ProcessSelector, keep_open: bool) -> Result<(), Gone> {
    let open = guest.awake()?.find_running(process).and_then(|process| {
        if process.stdin_open {
            return Ok(process.id);
        }
        Err(refuse(FailureCode::Ended, format!("the standard input of process {} is closed", process.id)))
    });
    let process = match open {
        Ok(process) => process,
        Err(failure) => return line.fail(guest, failure),
    };
    loop {
        let frame = line.receive()?;
        let at_end = match &frame {
            Some(frame) if frame.kind == FrameKind::Data => {
                follow::feed(guest, process, Some(&frame.payload))?;
                false
            }
            Some(frame) => frame.kind == FrameKind::End,
            None if keep_open => true,
            None => return Ok(()),
        };
        if at_end {
            if !keep_open {
                follow::feed(guest, process, None)?;
            }
            return line.reply(guest, &Reply::Done);
        }
    }
}

fn resize(
    guest: &Guest,
    selector: &ProcessSelector,
    size: TerminalSize,
) -> Result<Result<Reply, Failure>, Gone> {
    let mut state = guest.awake()?;
    Ok(state.find_running(selector).and_then(|process| match &mut process.start.terminal {
        Some(terminal) => {
            *terminal = size;
            Ok(Reply::Done)
        }
        None => Err(refuse(FailureCode::WrongKind, format!("process {} has no terminal", process.id))),
    }))
}

/// Connects to a port. Every listener in a fake sandbox sends back what it gets, but for the code
/// service.
fn connect(guest: &Arc<Guest>, mut line: Line, port: u16) -> Result<(), Gone> {
    let listener = |process: &&Process| process.exit.is_none() && process.port == Some(port);
    let found = guest.awake()?.processes.values().find(listener).map(|process| process.start.argv[0].clone());
    let Some(program) = found else {
        return line
            .fail(guest, refuse(FailureCode::NotFound, format!("connect to port {port}: nobody listens")));
    };
    line.reply(guest, &Reply::Done)?;
    if program.as_bytes() == b"python3" {
        return code::serve(guest, line);
    }
    while let Some(frame) = line.receive()? {
        match frame.kind {
            FrameKind::Data => line.send(guest, FrameKind::Data, &frame.payload)?,
            FrameKind::End => return line.send(guest, FrameKind::End, &[]),
            _ => return Ok(()),
        }
    }
    Ok(())
}

pub(super) fn refuse(code: FailureCode, message: impl Into<String>) -> Failure {
    Failure::new(code, message)
}
