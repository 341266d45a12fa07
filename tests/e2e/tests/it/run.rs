//! `warren run`: exit codes, streams, users, variables.

use std::io::Read;
use std::time::{Duration, Instant};

use warren_e2e::TestEnv;

#[test]
fn a_command_s_output_and_exit_code_are_warren_s() {
    let env = TestEnv::new();
    let output = env.run(["sh", "-c", "echo out; echo err >&2; exit 42"]).ended(42);
    assert_eq!((output.text().as_str(), output.errors().as_str()), ("out\n", "err\n"));
}

#[test]
fn a_signal_is_told_as_shells_do() {
    let env = TestEnv::new();
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("HUP", 1)] {
        env.run(["sh", "-c", &format!("kill -{name} $$")]).ended(128 + number);
    }
}

#[test]
fn warren_s_own_exit_codes_are_their_own() {
    let env = TestEnv::new();
    let started = Instant::now();
    env.run_with(&["--timeout", "300ms"], ["sleep", "60"]).ended(124).says("time limit");
    assert!(started.elapsed() < Duration::from_secs(50));
    env.run_with(&["--user", "nosuch"], ["true"]).ended(125).says("nosuch");
    env.run(["/etc/passwd"]).ended(126);
    env.run(["/etc"]).ended(126);
    env.run(["no-such-command"]).ended(127).says("no-such-command");
}

#[test]
fn standard_input_passes_through_byte_by_byte() {
    let env = TestEnv::new();
    let mut noise = vec![0; 50 << 20];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    let output = env.run_fed(&noise, ["cat"]).ok();
    assert!(output.stdout == noise, "{} of {} bytes came back", output.stdout.len(), noise.len());
}

#[test]
fn a_command_that_does_not_read_its_input_still_ends() {
    let env = TestEnv::new();
    env.run_fed(&vec![b'x'; 8 << 20], ["true"]).ok();
}

#[test]
fn a_reader_that_leaves_ends_the_command() {
    let env = TestEnv::new();
    let mut command = env.run_command(&[] as &[&str], ["yes"]);
    let mut child = command.spawn().unwrap();
    let mut some = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(141), "as a shell says of SIGPIPE");
}

#[test]
fn variables_are_set_and_none_of_the_caller_s_come_along() {
    let env = TestEnv::new();
    let mut command = env.run_command(&["--env", "A=1", "-e", "B=x=y z", "-e", "EMPTY="], ["env", "-0"]);
    let output = command.env("SECRET_OF_CALLER", "hunter2").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let vars: Vec<&str> = text.split('\0').collect();
    for expected in ["A=1", "B=x=y z", "EMPTY=", "HOME=/home/user", "USER=user"] {
        assert!(vars.contains(&expected), "{expected} is not in {vars:?}");
    }
    assert!(!text.contains("hunter2") && !text.contains("WARREN"), "{text}");
}

#[test]
fn the_working_directory_is_the_user_s_unless_named() {
    let env = TestEnv::new();
    assert_eq!(env.run(["pwd"]).ok().line(), "/home/user");
    assert_eq!(env.run_with(&["--workdir", "/usr/share"], ["pwd"]).ok().line(), "/usr/share");
    env.run_with(&["--workdir", "/no/such"], ["pwd"]).ended(125).says("/no/such");
    env.run_with(&["--workdir", "relative"], ["pwd"]).ended(125).says("absolute");
}

#[test]
fn the_user_is_chosen_by_name_or_number() {
    let env = TestEnv::new();
    let id = |user: &str| env.run_with(&["--user", user], ["sh", "-c", "id -u; id -g; id -G"]).ok().line();
    // 27 is `sudo`.
    assert_eq!(id("user"), "1000\n1000\n1000 27");
    assert_eq!(id("root"), "0\n0\n0");
    assert_eq!(id("1234:99"), "1234\n99\n99");
    for wrong in ["4294967295", "65536", "-1", "1 0", ""] {
        let output = env.run_with(&[format!("--user={wrong}")], ["id"]);
        assert!(output.code.is_some_and(|code| code == 125 || code == 2), "{wrong}: {output:?}");
    }
}

#[test]
fn a_report_has_everything_in_one_document() {
    let env = TestEnv::new();
    let output = env.run_with(&["--json"], ["sh", "-c", "echo out; echo err >&2; exit 3"]).ended(3);
    let report = output.json();
    assert_eq!(report["exit_code"], 3);
    assert_eq!((report["stdout"].as_str(), report["stderr"].as_str()), (Some("out\n"), Some("err\n")));
    assert_eq!((report["cause"].as_str(), report["truncated"].as_bool()), (Some("exited"), Some(false)));
    assert!(report["sandbox_id"].as_str().unwrap().starts_with("sbx"));
    assert!(report["usage"]["cpu_ns"].as_u64().unwrap() > 0);
    assert!(report["usage"]["memory_peak_bytes"].as_u64().unwrap() > 0);
    let signalled = env.run_with(&["--json"], ["sh", "-c", "kill -9 $$"]).ended(137).json();
    assert_eq!(signalled["cause"], "signalled");
    let late = env.run_with(&["--json", "--timeout", "200ms"], ["sleep", "60"]).ended(124).json();
    assert_eq!(late["cause"], "timed_out");
}

#[test]
fn processors_are_seen_as_they_are_given() {
    let env = TestEnv::new();
    assert_eq!(env.run_with(&["--cpus", "1"], ["nproc"]).ok().line(), "1");
    assert_eq!(env.run_with(&["--cpus", "0.5"], ["nproc"]).ok().line(), "1");
}

#[test]
fn the_host_name_is_the_sandbox_s_own() {
    let env = TestEnv::new();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(env.run_with(&["--hostname", "den"], ["uname", "-n"]).ok().line(), "den");
    let own = env.run(["uname", "-n"]).ok().line();
    assert!(!own.is_empty() && own != host.trim(), "{own}");
    assert_eq!(env.run_with(&["--hostname", "den"], ["cat", "/etc/hostname"]).ok().line(), "den");
}

#[test]
fn twenty_pairs_of_runs_at_once_do_not_disturb_each_other() {
    let env = TestEnv::new();
    for round in 0..20 {
        let start = |word: &str| env.run_command(&[] as &[&str], ["echo", word]).spawn().unwrap();
        let (a, b) = (start(&format!("a{round}")), start(&format!("b{round}")));
        let (a, b) = (a.wait_with_output().unwrap(), b.wait_with_output().unwrap());
        assert_eq!(a.stdout, format!("a{round}\n").into_bytes(), "{}", String::from_utf8_lossy(&a.stderr));
        assert_eq!(b.stdout, format!("b{round}\n").into_bytes(), "{}", String::from_utf8_lossy(&b.stderr));
    }
}

#[test]
fn a_run_gives_everything_back_before_it_ends() {
    let env = TestEnv::new();
    for _ in 0..10 {
        env.run(["sh", "-c", "sleep 100 & mkdir -p a/b/c; echo > a/b/c/d"]).ok();
        assert_eq!(env.census(), Vec::<String>::new());
    }
}
