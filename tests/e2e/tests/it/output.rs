//! Floods of output, and of starts that fail: checks 45 and 47.

use std::io::Read;
use std::process::Child;
use std::time::{Duration, Instant};

use warren_e2e::{TestEnv, count_descriptors, processes_of, resident_bytes};
use warren_wire::guest::{Connection, GuestUsage, Reply, Request, Start, TerminalSize};

const MEGABYTE: u64 = 1 << 20;

/// Reads all that a run prints, slowly at first, and answers how much it was and the most memory
/// that warren and the sandbox's agent held meanwhile, beyond what they began with.
fn drain(env: &TestEnv, mut run: Child) -> (u64, u64) {
    let mut stdout = run.stdout.take().expect("its output is piped");
    let mut buffer = vec![0; 1 << 20];
    let mut total = stdout.read(&mut buffer).expect("it writes") as u64;
    let agent = processes_of(&env.instance()).into_iter().min().expect("the agent runs");
    let held = || resident_bytes(run.id()) + resident_bytes(agent);
    let (before, mut most, started) = (held(), 0, Instant::now());
    let mut reads = 0u32;
    loop {
        let count = stdout.read(&mut buffer).expect("it writes") as u64;
        if count == 0 {
            break;
        }
        total += count;
        reads += 1;
        if reads.is_multiple_of(64) {
            most = most.max(held().saturating_sub(before));
        }
        if started.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    assert!(run.wait().expect("it can be waited for").success());
    (total, most)
}

#[test]
fn check_45_a_flood_of_output_is_held_back_and_not_kept() {
    let env = TestEnv::new();
    let run = env.run_command(&[] as &[&str], ["head", "-c", "2G", "/dev/zero"]).spawn().unwrap();
    let (total, most) = drain(&env, run);
    assert_eq!(total, 2 << 30);
    assert!(most < 64 * MEGABYTE, "{} MB were held", most / MEGABYTE);
}

#[test]
fn check_45_one_endless_line_and_noise_pass_as_they_are() {
    let env = TestEnv::new();
    let run = |script: &str| env.run_command(&[] as &[&str], ["sh", "-c", script]).spawn().unwrap();
    let (total, most) = drain(&env, run("head -c 200M /dev/zero | tr '\\0' x"));
    assert_eq!(total, 200 * MEGABYTE);
    assert!(most < 64 * MEGABYTE, "{} MB were held", most / MEGABYTE);
    let (total, most) = drain(&env, run("head -c 100M /dev/urandom"));
    assert_eq!(total, 100 * MEGABYTE);
    assert!(most < 64 * MEGABYTE, "{} MB were held", most / MEGABYTE);
}

#[test]
fn check_45_a_report_is_bounded_and_says_so() {
    let env = TestEnv::new();
    let report = env.run_with(&["--json"], ["sh", "-c", "head -c 60M /dev/zero | tr '\\0' x"]).ok().json();
    assert_eq!(report["truncated"], true);
    assert!(report["stdout"].as_str().unwrap().len() <= 16 << 20);
}

#[test]
fn check_45_a_reader_that_stops_does_not_stop_others() {
    let env = TestEnv::new();
    let id = env.keep(&[] as &[&str]);
    let mut stalled = env.command(["exec", &id, "--", "yes"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..10 {
        assert_eq!(env.exec(&id, ["echo", "served"]).ok().line(), "served");
    }
    stalled.kill().unwrap();
    stalled.wait().unwrap();
    env.remove(&id).ok();
}

#[test]
fn check_47_ten_thousand_starts_that_fail_leak_nothing() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox();
    let agent = processes_of(id.as_str()).into_iter().min().unwrap();
    let usage = || -> GuestUsage {
        match Connection::ask(backend.dial(&id), &Request::Usage).unwrap() {
            Reply::Usage(usage) => usage,
            other => panic!("{other:?}"),
        }
    };
    let start = |program: &str| Start {
        argv: vec![program.into()],
        terminal: Some(TerminalSize { columns: 80, rows: 24 }),
        ..Start::default()
    };
    for program in ["no-such-program", "/etc/passwd", "/no/such/directory/program"] {
        backend.follow(&id, start(program)).unwrap_err();
    }
    // A closed connection is noticed a moment later: the least of some counts is what is really
    // held.
    let held = || {
        let count = |_| {
            std::thread::sleep(Duration::from_millis(20));
            (count_descriptors(agent), usage().running, backend.port().usage(&id).unwrap().pids)
        };
        (0..20).map(count).min().unwrap()
    };
    let before = held();
    for round in 0..10_000 {
        let program = ["no-such-program", "/etc/passwd", "/no/such/directory/program"][round % 3];
        backend.follow(&id, start(program)).unwrap_err();
    }
    assert_eq!(held(), before, "descriptors, commands, tasks");
    assert_eq!(backend.exec(&id, ["sh", "-c", "ls /dev/pts | grep -v ptmx | wc -l"]).line(), "0");
    assert!(usage().agent_resident_bytes < 64 << 20);
    backend.destroy(&id);
}
