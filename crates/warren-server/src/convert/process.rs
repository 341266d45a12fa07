use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use warren_core::SandboxId;
use warren_engine::{Launched, Output, OutputCaps, port_of};
use warren_face::address::Address;
use warren_face::error::{ApiError, Code};
use warren_wire::api::{
    Command, Encoding, Exec, ExecResult, ExitCause, OutputRange, Process, ProcessExit, ProcessStatus, Signal,
    StartProcess, StreamNotice, StreamStarted, TerminalSize,
};
use warren_wire::guest::{
    self, ByteString, Exit, ProcessId, ProcessInfo, ProcessSelector, Start, Started, Stdin,
};

use super::file::{name, path};
use super::words::launch_status;

/// How much of each stream is kept for a caller who names no other bound.
const OUTPUT_BYTES: u64 = 1 << 20;
const MOST_OUTPUT_BYTES: u64 = 64 << 20;
const LONGEST_TIMEOUT_S: u64 = 366 * 24 * 60 * 60;

/// A command to run to its end, as the engine takes it.
#[derive(Debug)]
pub(crate) struct ExecOrder {
    pub(crate) start: Start,
    pub(crate) stdin: Bytes,
    pub(crate) caps: OutputCaps,
    pub(crate) encoding: Encoding,
}

pub(crate) fn exec_order(body: Exec) -> Result<ExecOrder, ApiError> {
    let stdin = exec_input(body.stdin, body.stdin_base64)?;
    let most = body.max_output_bytes.unwrap_or(OUTPUT_BYTES);
    if most > MOST_OUTPUT_BYTES {
        let detail = format!("`max_output_bytes` must be a whole number from 0 to {MOST_OUTPUT_BYTES}");
        return Err(ApiError::invalid("max_output_bytes", detail));
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let start = Start {
        argv: words(body.command)?,
        env: variables(body.env)?,
        cwd: body.cwd.map(|text| path("cwd", &text)).transpose()?,
        user: body.user.map(|text| name("user", &text)).transpose()?,
        tag: body.tag.map(|text| name("tag", &text)).transpose()?,
        timeout_ms: timeout_ms(body.timeout_s)?,
        stdin: if stdin.is_empty() { Stdin::Null } else { Stdin::Piped },
        ..Start::default()
    };
    Ok(ExecOrder { start, stdin, caps: OutputCaps { stdout: most, stderr: most }, encoding: body.encoding })
}

pub(crate) fn start_order(body: StartProcess) -> Result<Start, ApiError> {
    Ok(Start {
        argv: words(body.command)?,
        env: variables(body.env)?,
        cwd: body.cwd.map(|text| path("cwd", &text)).transpose()?,
        user: body.user.map(|text| name("user", &text)).transpose()?,
        tag: body.tag.map(|text| name("tag", &text)).transpose()?,
        timeout_ms: timeout_ms(body.timeout_s)?,
        terminal: body.terminal.map(|size| terminal_size(size, "terminal.")).transpose()?,
        stdin: if body.stdin_open { Stdin::Piped } else { Stdin::Null },
        ..Start::default()
    })
}

/// A process's number, `pid:N` or `tag:NAME`. What cannot name a process is answered like one that
/// is not there.
pub(crate) fn process_selector(text: &str) -> Result<ProcessSelector, ApiError> {
    let named =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let selector = match text.split_once(':') {
        None => named(text).map(|number| ProcessSelector::Id(ProcessId(number))),
        Some(("pid", pid)) => named(pid).and_then(|pid| u32::try_from(pid).ok()).map(ProcessSelector::Pid),
        Some(("tag", tag)) if !tag.is_empty() => Some(ProcessSelector::Tag(tag.into())),
        Some(_) => None,
    };
    selector.ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        ApiError::new(Code::ProcessNotFound, format!("there is no process `{shown}`"))
    })
}

/// A signal's number.
pub(crate) fn signal_number(signal: &Signal) -> Result<i32, ApiError> {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let found = match signal {
        Signal::Number(number) => Some(*number).filter(|number| (1..=64).contains(number)),
        Signal::Name(name) => {
            let name = name.strip_prefix("SIG").unwrap_or(name);
            let at = NAMES.iter().position(|known| *known == name);
            at.and_then(|at| i32::try_from(at + 1).ok())
        }
    };
    found.ok_or_else(|| {
        ApiError::invalid("signal", "the signal is not the name or the number of one, such as `TERM` or 15")
    })
}

pub(crate) fn checked_port(port: Option<u16>) -> Result<Option<u16>, ApiError> {
    match port {
        Some(0) => Err(ApiError::invalid("port", "`port` must be a whole number from 1 to 65535")),
        port => Ok(port),
    }
}

/// How output is written in answers, as a query names it.
pub(crate) fn encoding(text: Option<&str>) -> Result<Encoding, ApiError> {
    match text {
        None | Some("utf8") => Ok(Encoding::Utf8),
        Some("base64") => Ok(Encoding::Base64),
        Some(_) => Err(ApiError::invalid("encoding", "`encoding` must be `utf8` or `base64`")),
    }
}

/// `at` is where the size stands in the request: empty, or such as `terminal.`.
pub(crate) fn terminal_size(size: TerminalSize, at: &str) -> Result<guest::TerminalSize, ApiError> {
    if size.columns == 0 || size.rows == 0 {
        let field = if size.columns == 0 { "columns" } else { "rows" };
        return Err(ApiError::invalid(
            format!("{at}{field}"),
            "a terminal has at least one column and one row",
        ));
    }
    Ok(guest::TerminalSize { columns: size.columns, rows: size.rows })
}

pub(crate) fn exec_result(result: warren_engine::ExecResult, encoding: Encoding) -> ExecResult {
    let exit = process_exit(&result.exit);
    ExecResult {
        process_id: result.started.process.0,
        pid: result.started.pid,
        exit_code: exit.exit_code,
        cause: exit.cause,
        signal: exit.signal,
        duration_ms: exit.duration_ms,
        stdout_bytes: result.stdout.total,
        stderr_bytes: result.stderr.total,
        stdout_truncated: result.stdout.dropped_at.is_some(),
        stderr_truncated: result.stderr.dropped_at.is_some(),
        stdout: shown(result.stdout, encoding),
        stderr: shown(result.stderr, encoding),
        encoding,
    }
}

/// A process whose port, if it has one, was not tried.
pub(crate) fn process(info: ProcessInfo, (address, sandbox): (&Address, &SandboxId)) -> Process {
    let port = port_of(&info);
    let exit = info.exit.as_ref().map(process_exit);
    Process {
        process_id: info.process.0,
        pid: info.pid,
        command: info.argv.iter().map(|word| word.to_text().into_owned()).collect(),
        tag: info.tag.map(|tag| tag.to_text().into_owned()),
        cwd: info.cwd.to_text().into_owned(),
        terminal: info.terminal,
        status: if exit.is_some() { ProcessStatus::Exited } else { ProcessStatus::Running },
        exited: exit,
        exit,
        age_ms: info.age_ms,
        output: OutputRange { from: info.kept_from, to: info.kept_to },
        port,
        address: port.map(|port| address.url(sandbox, port)),
    }
}

pub(crate) fn launched(launched: Launched, at: (&Address, &SandboxId)) -> Process {
    Process { status: launch_status(launched.status), ..process(launched.process, at) }
}

pub(crate) fn process_exit(exit: &Exit) -> ProcessExit {
    let (cause, signal) = match exit.cause {
        guest::ExitCause::Exited => (ExitCause::Exited, None),
        guest::ExitCause::Signalled { signal } => (ExitCause::Signalled, Some(signal)),
        guest::ExitCause::TimedOut => (ExitCause::TimedOut, None),
    };
    ProcessExit { exit_code: exit.code, cause, signal, duration_ms: exit.duration_ms }
}

pub(crate) fn started(started: &Started) -> StreamNotice {
    let Started { process, pid, position } = *started;
    StreamNotice::Started(StreamStarted { process_id: process.0, pid, position })
}

pub(crate) fn exited(exit: &Exit) -> StreamNotice {
    StreamNotice::Exited(process_exit(exit))
}

fn words(command: Command) -> Result<Vec<ByteString>, ApiError> {
    let words = match command {
        Command::Shell(line) => vec!["/bin/sh".to_owned(), "-c".to_owned(), line],
        Command::Words(words) => words,
    };
    if words.first().is_none_or(String::is_empty) {
        return Err(ApiError::invalid("command", "a command names at least a program"));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err(ApiError::invalid("command", "a command holds no NUL"));
    }
    Ok(words.into_iter().map(ByteString::from).collect())
}

fn variables(env: BTreeMap<String, String>) -> Result<Vec<ByteString>, ApiError> {
    let one = |(name, value): (String, String)| {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(ApiError::invalid("env", "a variable has a name without `=`, and no NUL anywhere"));
        }
        Ok(ByteString::from(format!("{name}={value}")))
    };
    env.into_iter().map(one).collect()
}

fn timeout_ms(seconds: Option<u64>) -> Result<Option<u64>, ApiError> {
    let check = |seconds: u64| match seconds {
        1..=LONGEST_TIMEOUT_S => Ok(seconds * 1000),
        _ => {
            let detail = format!("`timeout_s` must be a whole number from 1 to {LONGEST_TIMEOUT_S}");
            Err(ApiError::invalid("timeout_s", detail))
        }
    };
    seconds.map(check).transpose()
}

fn exec_input(text: Option<String>, base64: Option<String>) -> Result<Bytes, ApiError> {
    match (text, base64) {
        (Some(_), Some(_)) => {
            Err(ApiError::invalid("stdin_base64", "give `stdin` or `stdin_base64`, not both"))
        }
        (Some(text), None) => Ok(text.into()),
        (None, Some(base64)) => {
            let wrong = |_| ApiError::invalid("stdin_base64", "it is not base64");
            STANDARD.decode(base64).map(Bytes::from).map_err(wrong)
        }
        (None, None) => Ok(Bytes::new()),
    }
}

/// The kept part of a stream. As text, a line stands where something was left out, and no character
/// is cut there.
fn shown(output: Output, encoding: Encoding) -> String {
    if encoding == Encoding::Base64 {
        return STANDARD.encode(&output.bytes);
    }
    let Some(at) = output.dropped_at else {
        return String::from_utf8_lossy(&output.bytes).into_owned();
    };
    let (head, tail) = output.bytes.split_at(at.min(output.bytes.len()));
    let head = head.utf8_chunks().map(|chunk| chunk.valid()).collect::<Vec<_>>().join("\u{fffd}");
    let start = tail.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    let tail = String::from_utf8_lossy(&tail[start..]);
    let left_out = output.total.saturating_sub(output.bytes.len() as u64);
    format!("{head}\n[… {left_out} bytes left out …]\n{tail}")
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
