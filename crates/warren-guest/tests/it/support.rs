use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use warren_wire::guest::{
    ByteString, CallError, Connection, Exit, Failure, Frame, FrameKind, ProcessId, ProcessInfo,
    ProcessSelector, Reader, Reply, Request, Start, Started,
};

/// Long enough for a busy machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running agent with a directory of its own; both end with the value.
pub(crate) struct Agent {
    child: Child,
    pub(crate) directory: TempDir,
}

impl Agent {
    pub(crate) fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let child = Command::new(env!("CARGO_BIN_EXE_warren-guest"))
            .arg("serve")
            .arg(directory.path().join("a.sock"))
            .stdin(Stdio::null())
            .spawn()?;
        let agent = Self { child, directory };
        agent.eventually("the agent listens", || agent.dial().is_ok())?;
        // It listens before it has opened all that it needs.
        agent.ping()?;
        Ok(agent)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn dial(&self) -> std::io::Result<UnixStream> {
        let stream = UnixStream::connect(self.directory.path().join("a.sock"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    pub(crate) fn open(&self, request: &Request) -> Result<Connection<UnixStream>> {
        Ok(Connection::open(self.dial()?, request)?)
    }

    pub(crate) fn ask(&self, request: &Request) -> Result<Reply> {
        Ok(Connection::ask(self.dial()?, request)?)
    }

    pub(crate) fn refusal(&self, request: &Request) -> Result<Failure> {
        match Connection::ask(self.dial()?, request) {
            Err(CallError::Failed(failure)) => Ok(failure),
            other => bail!("expected a refusal, got {other:?}"),
        }
    }

    /// Starts a process and follows it.
    pub(crate) fn follow(&self, start: Start) -> Result<Follower> {
        let follow = start.follow.or(Some(Reader::Holds));
        Follower::new(self.open(&Request::Start(Start { follow, ..start }))?)
    }

    /// Runs a shell script to its end.
    pub(crate) fn run(&self, script: &str) -> Result<Output> {
        self.follow(shell(script))?.finish()
    }

    pub(crate) fn processes(&self) -> Result<Vec<ProcessInfo>> {
        let mut connection = self.open(&Request::List)?;
        let mut rows = Vec::new();
        loop {
            let frame = connection.next_frame()?.context("the list ends with End")?;
            match frame.kind {
                FrameKind::End => return Ok(rows),
                _ => match minicbor::decode(&frame.payload)? {
                    Reply::Processes(more) => rows.extend(more),
                    other => bail!("unexpected {other:?}"),
                },
            }
        }
    }

    pub(crate) fn wait(&self, process: ProcessId) -> Result<Exit> {
        match self.ask(&Request::Wait { process: ProcessSelector::Id(process) })? {
            Reply::Exited(exit) => Ok(exit),
            other => bail!("unexpected {other:?}"),
        }
    }

    pub(crate) fn ping(&self) -> Result<()> {
        match self.ask(&Request::Ping)? {
            Reply::Pong(_) => Ok(()),
            other => bail!("unexpected {other:?}"),
        }
    }

    pub(crate) fn open_descriptors(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.pid()))?.count())
    }

    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.pid()))?;
        Ok(text.split(' ').nth(1).context("second field")?.parse::<u64>()? * 4096)
    }

    /// Pids of the agent's children, living or not.
    pub(crate) fn children(&self) -> Result<Vec<u32>> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        let text = std::fs::read_to_string(path)?;
        Ok(text.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>()?)
    }

    pub(crate) fn eventually(&self, what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
        let began = Instant::now();
        while !holds() {
            if began.elapsed() > PATIENCE {
                bail!("waited in vain until {what}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // SIGTERM lets the agent take its processes along; a test that failed may have stopped it
        // for good.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        }
        for _ in 0..2000 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The call of somebody who started a process or attached to one.
pub(crate) struct Follower {
    pub(crate) connection: Connection<UnixStream>,
    pub(crate) started: Started,
}

/// Everything a follower was told.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) missed: Vec<(u64, u64)>,
    pub(crate) exit: Option<Exit>,
}

impl Output {
    pub(crate) fn code(&self) -> Option<i32> {
        self.exit.map(|exit| exit.code)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl Follower {
    pub(crate) fn new(mut connection: Connection<UnixStream>) -> Result<Self> {
        match connection.reply()? {
            Reply::Started(started) => Ok(Self { connection, started }),
            other => bail!("unexpected {other:?}"),
        }
    }

    pub(crate) fn selector(&self) -> ProcessSelector {
        ProcessSelector::Id(self.started.process)
    }

    pub(crate) fn frame(&mut self) -> Result<Frame> {
        self.connection.next_frame()?.context("the agent closed the connection")
    }

    /// Reads until the process's exit is told.
    pub(crate) fn finish(mut self) -> Result<Output> {
        let mut output = Output::default();
        while output.exit.is_none() {
            let frame = self.frame()?;
            match frame.kind {
                FrameKind::Stdout => output.stdout.extend_from_slice(&frame.payload),
                FrameKind::Stderr => output.stderr.extend_from_slice(&frame.payload),
                FrameKind::Message => match minicbor::decode(&frame.payload)? {
                    Reply::Exited(exit) => output.exit = Some(exit),
                    Reply::Missed { bytes, position } => output.missed.push((bytes, position)),
                    other => bail!("unexpected {other:?}"),
                },
                other => bail!("unexpected {other:?}"),
            }
        }
        Ok(output)
    }

    /// Reads output until it contains `text`.
    pub(crate) fn read_until(&mut self, text: &str) -> Result<String> {
        let mut seen = Vec::new();
        loop {
            let frame = self.frame()?;
            if !matches!(frame.kind, FrameKind::Stdout | FrameKind::Stderr) {
                bail!("{:?} before `{text}`, after {:?}", frame.kind, String::from_utf8_lossy(&seen));
            }
            seen.extend_from_slice(&frame.payload);
            let so_far = String::from_utf8_lossy(&seen);
            if so_far.contains(text) {
                return Ok(so_far.into_owned());
            }
        }
    }
}

pub(crate) fn start(argv: &[&str]) -> Start {
    Start { argv: argv.iter().map(|text| ByteString::from(*text)).collect(), ..Start::default() }
}

pub(crate) fn shell(script: &str) -> Start {
    start(&["/bin/sh", "-c", script])
}

/// Bytes that show where they were cut or swapped.
pub(crate) fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|n| (n.wrapping_mul(31).wrapping_add(seed) % 251).to_le_bytes()[0]).collect()
}
