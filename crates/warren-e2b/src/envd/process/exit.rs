use warren_wire::guest::{Exit, ExitCause};

use crate::process::EndEvent;

const SIGKILL: i32 = 9;

/// How a process ended, in the words that clients expect. One whose time was over was killed.
pub(super) fn end(exit: &Exit) -> EndEvent {
    match exit.cause {
        ExitCause::Exited => {
            let status = format!("exit status {}", exit.code);
            let error = (exit.code != 0).then(|| status.clone());
            EndEvent { exit_code: exit.code, exited: true, status, error }
        }
        ExitCause::Signalled { signal } => signalled(signal),
        ExitCause::TimedOut => signalled(SIGKILL),
    }
}

fn signalled(signal: i32) -> EndEvent {
    let status = match name(signal) {
        Some(name) => format!("signal: {name}"),
        None => format!("signal: signal {signal}"),
    };
    EndEvent { exit_code: -1, exited: false, error: Some(status.clone()), status }
}

fn name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        SIGKILL => "killed",
        10 => "user defined signal 1",
        11 => "segmentation fault",
        12 => "user defined signal 2",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32, cause: ExitCause) -> EndEvent {
        end(&Exit { code, cause, duration_ms: 1, output_bytes: 0 })
    }

    #[test]
    fn ends_are_told_in_the_words_of_clients() {
        let told = |code, exited, status: &str, error: Option<&str>| EndEvent {
            exit_code: code,
            exited,
            status: status.to_owned(),
            error: error.map(str::to_owned),
        };
        assert_eq!(ended(0, ExitCause::Exited), told(0, true, "exit status 0", None));
        assert_eq!(ended(3, ExitCause::Exited), told(3, true, "exit status 3", Some("exit status 3")));
        let killed = told(-1, false, "signal: killed", Some("signal: killed"));
        assert_eq!(ended(137, ExitCause::Signalled { signal: 9 }), killed);
        assert_eq!(ended(137, ExitCause::TimedOut), killed);
        let strange = told(-1, false, "signal: signal 40", Some("signal: signal 40"));
        assert_eq!(ended(168, ExitCause::Signalled { signal: 40 }), strange);
    }
}
