//! Terminals and interrupts. The terminal of the user is played by Python's `pty`, on the host.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use warren_e2e::TestEnv;

/// Runs `warren run -- COMMAND` on a terminal of 33 rows and 99 columns, types `keys` once
/// `awaited` has been shown, and answers all that was shown and the exit status.
fn on_terminal(env: &TestEnv, command: &[&str], awaited: &str, keys: &str) -> (String, i32) {
    let warren = env.run_command(&[] as &[&str], command);
    let driver = include_str!("../../probes/user_terminal.py");
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", driver, awaited, keys]).arg(warren.get_program()).args(warren.get_args());
    python.env("TERM", "xterm-test");
    let output = python.output().expect("python3 is there");
    let code = output.status.code().unwrap_or(-1);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n"), code)
}

#[test]
fn on_a_terminal_the_command_gets_one() {
    let env = TestEnv::new();
    let look = "tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo all; echo $TERM; exit 5";
    let (shown, code) = on_terminal(&env, &["sh", "-c", look], "", "");
    assert_eq!((shown.as_str(), code), ("/dev/pts/0\n33 99\nall\nxterm-test\n", 5));
}

#[test]
fn without_a_terminal_the_command_gets_none() {
    let env = TestEnv::new();
    let output = env.run(["sh", "-c", "tty; test -t 1 || echo none"]).ok();
    assert_eq!(output.text(), "not a tty\nnone\n");
}

#[test]
fn keys_reach_the_command_and_control_c_interrupts_it() {
    let env = TestEnv::new();
    let (shown, code) =
        on_terminal(&env, &["sh", "-c", "echo ready; read word; echo \"got $word\""], "ready", "hello\r");
    assert!(shown.ends_with("got hello\n") && code == 0, "{shown} {code}");
    let (_, code) = on_terminal(&env, &["sh", "-c", "echo ready; exec sleep 100"], "ready", "\x03");
    assert_eq!(code, 130, "as a shell says of SIGINT");
    let trap = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done";
    let (shown, code) = on_terminal(&env, &["sh", "-c", trap], "ready", "\x03");
    assert!(shown.contains("caught") && code == 7, "{shown} {code}");
}

/// `warren run` in a script: the signals that ask a program to end reach the command, which may
/// have its own mind.
#[test]
fn signals_to_warren_reach_the_command() {
    let env = TestEnv::new();
    for (signal, name, number) in
        [(Signal::INT, "INT", 2), (Signal::TERM, "TERM", 15), (Signal::HUP, "HUP", 1)]
    {
        let trap = format!("trap 'echo caught; exit 7' {name}; echo up; while :; do sleep 0.05; done");
        let plain = "echo up; exec sleep 100".to_owned();
        for (script, expected) in [(trap, 7), (plain, 128 + number)] {
            let mut child = env.run_command(&[] as &[&str], ["sh", "-c", &script]).spawn().unwrap();
            let mut line = [0; 3];
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
            kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
            let sent = Instant::now();
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.signal(), None, "{name} ended warren itself");
            assert_eq!(output.status.code(), Some(expected), "{name}: {output:?}");
            assert!(sent.elapsed() < Duration::from_secs(60), "{name}");
        }
    }
}
