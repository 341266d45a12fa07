use std::sync::Arc;
use std::time::Instant;

use parking_lot::MutexGuard;
use rustix::event::{PollFd, PollFlags, poll};
use warren_wire::guest::{CHUNK, Control, Exit, FrameKind, Reply};

use super::line::Line;
use super::process::Process;
use super::{Gone, Guest, STACK, State};

/// Sends the output of a process until it ends, and reads the follower's frames meanwhile.
pub(super) fn follow(
    guest: &Arc<Guest>,
    connection: u64,
    line: Line,
    process: u64,
    from: u64,
) -> Result<(), Gone> {
    let (started, ended) = {
        let state = guest.awake()?;
        let process = state.processes.get(&process).ok_or(Gone)?;
        (process.started(from), process.exit.is_some())
    };
    line.reply(guest, &Reply::Started(started))?;
    let line = if ended { line } else { listen(guest, connection, line, process)? };
    let mut position = started.position;
    loop {
        let (output, exit) = next_output(guest, connection, process, position)?;
        for (kind, bytes) in &output {
            for chunk in bytes.chunks(CHUNK) {
                line.send(guest, *kind, chunk)?;
                position += chunk.len() as u64;
            }
        }
        if let Some(exit) = exit.filter(|exit| position >= exit.output_bytes) {
            return line.reply(guest, &Reply::Exited(exit));
        }
    }
}

/// Answers once the process has ended.
pub(super) fn wait(guest: &Arc<Guest>, connection: u64, line: Line, process: u64) -> Result<(), Gone> {
    let ended = guest.awake()?.processes.get(&process).is_none_or(|process| process.exit.is_some());
    let line = if ended { line } else { listen(guest, connection, line, process)? };
    loop {
        if let (_, Some(exit)) = next_output(guest, connection, process, u64::MAX)? {
            return line.reply(guest, &Reply::Exited(exit));
        }
    }
}

/// Gives standard input to a process, or closes it.
pub(super) fn feed(guest: &Guest, process: u64, bytes: Option<&[u8]>) -> Result<(), Gone> {
    if let Some(process) = guest.awake()?.processes.get_mut(&process) {
        match bytes {
            Some(bytes) => process.feed(bytes),
            None => process.close_stdin(),
        }
    }
    guest.changed.notify_all();
    Ok(())
}

type News = (Vec<(FrameKind, Vec<u8>)>, Option<Exit>);

/// Waits until there is output after `position`, or the process has ended, or the other end has
/// left.
fn next_output(guest: &Guest, connection: u64, process: u64, position: u64) -> Result<News, Gone> {
    loop {
        let state = guest.awake()?;
        if state.departed.contains(&connection) {
            return Err(Gone);
        }
        let process = state.processes.get(&process).ok_or(Gone)?;
        let news = (process.output_from(position), process.exit);
        if !news.0.is_empty() || news.1.is_some() {
            return Ok(news);
        }
        let due = process.due();
        rest(guest, state, due);
    }
}

fn rest(guest: &Guest, mut state: MutexGuard<'_, State>, due: Option<Instant>) {
    match due {
        Some(due) => drop(guest.changed.wait_until(&mut state, due)),
        None => guest.changed.wait(&mut state),
    }
}

/// Reads from the other end in a thread of its own, so that output flows while nothing arrives.
fn listen(guest: &Arc<Guest>, connection: u64, mut line: Line, process: u64) -> Result<Line, Gone> {
    let writer = Line::new(Arc::clone(line.stream()));
    let guest = Arc::clone(guest);
    let hear = move || {
        while let Ok(Some(frame)) = line.receive() {
            let heard = match frame.kind {
                FrameKind::Data => feed(&guest, process, Some(&frame.payload)),
                FrameKind::End => feed(&guest, process, None),
                FrameKind::Message => guest.control(process, &frame.payload),
                FrameKind::Stdout | FrameKind::Stderr => Ok(()),
            };
            if heard.is_err() {
                return;
            }
        }
        // A follower that only closed its sending side still reads.
        let mut hung_up = [PollFd::new(&**line.stream(), PollFlags::empty())];
        poll(&mut hung_up, None).ok();
        guest.state.lock().note_departed(connection);
        guest.changed.notify_all();
    };
    std::thread::Builder::new().stack_size(STACK).spawn(hear).map_err(|_| Gone)?;
    Ok(writer)
}

impl Guest {
    fn control(&self, process: u64, payload: &[u8]) -> Result<(), Gone> {
        let mut state = self.awake()?;
        let running = |process: &&mut Process| process.exit.is_none();
        if let Some(process) = state.processes.get_mut(&process).filter(running) {
            match minicbor::decode(payload) {
                Ok(Control::Signal { signal }) => process.signal(signal),
                Ok(Control::Resize(size)) => process.start.terminal = process.start.terminal.map(|_| size),
                Err(_) => {}
            }
        }
        self.changed.notify_all();
        Ok(())
    }
}
