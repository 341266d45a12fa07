//! The remains of a death at any moment, and their removal.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use warren_e2e::{TestEnv, processes_of};
use warren_isolate::CrashPoint;

const SIGKILL: i32 = 9;

/// Halting, resuming, sealing, the late layer on `/usr`, processes on disk and other backends'
/// steps are no steps of a run; `kept`, `sealed`, `inside` and their conformance have the same test
/// for them.
fn steps_of_a_run() -> impl Iterator<Item = CrashPoint> {
    let kinds = ["halt.", "resume.", "seal.", "defer.", "memory.", "oci.", "docker.", "lxd."];
    let other = move |point: &CrashPoint| kinds.iter().any(|kind| point.name().starts_with(kind));
    CrashPoint::ALL.into_iter().filter(move |point| !other(point))
}

/// A new step is a new point in the list, so a step without this test cannot be.
#[test]
fn a_crash_at_any_step_is_reclaimed_by_the_next_start() {
    for point in steps_of_a_run() {
        let env = TestEnv::new();
        let mut command = env.command(["run", "--", "true"]);
        let output = command.env("WARREN_CRASH_AT", point.name()).output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(signal, Some(SIGKILL), "{} is not a step of a run: {output:?}", point.name());
        env.run(["true"]).ok();
        env.assert_clean();
    }
}

/// Removal is done in steps as well.
#[test]
fn a_crash_while_a_kept_sandbox_is_removed_is_finished_by_the_next_start() {
    for point in steps_of_a_run() {
        if point.name().starts_with("create.") {
            continue;
        }
        let env = TestEnv::new();
        let id = env.keep(&[] as &[&str]);
        let output = env.command(["rm", &id]).env("WARREN_CRASH_AT", point.name()).output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(signal, Some(SIGKILL), "{}: {output:?}", point.name());
        if point == CrashPoint::DestroyKill {
            // It was not yet taken from the list: all its processes are gone, and the client that
            // asked asks again.
            env.remove(&id).ok();
        }
        env.warren(["ls"]).ok();
        env.assert_clean();
        env.exec(&id, ["true"]).ended(125);
    }
}

#[test]
fn a_killed_run_takes_its_sandbox_along_at_once() {
    let env = TestEnv::new();
    let mut run = env
        .run_command(&[] as &[&str], ["sh", "-c", "setsid sleep 1000 & sleep 1000 & echo up; wait"])
        .spawn()
        .unwrap();
    await_line(&mut run);
    assert!(processes_of(&env.instance()).len() >= 3);
    let pid = Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let killed = Instant::now();
    run.wait().unwrap();
    while !processes_of(&env.instance()).is_empty() {
        assert!(killed.elapsed() < Duration::from_secs(60), "its processes live on");
        std::thread::sleep(Duration::from_millis(5));
    }
    env.run(["true"]).ok();
    env.assert_clean();
}

#[test]
fn a_killed_run_leaves_a_kept_sandbox_alone() {
    let env = TestEnv::new();
    let mut run = env.run_command(&["--keep"], ["sh", "-c", "echo up; sleep 1000"]).spawn().unwrap();
    await_line(&mut run);
    run.kill().unwrap();
    run.wait().unwrap();
    env.run(["true"]).ok();
    let listed = env.warren(["ls", "--json"]).ok().json();
    assert_eq!(listed[0]["alive"], true, "{listed}");
    let id = listed[0]["id"].as_str().unwrap();
    assert_eq!(env.exec(id, ["echo", "still here"]).ok().line(), "still here");
    env.remove(id).ok();
}

#[test]
fn the_end_of_the_agent_is_told_and_leaves_no_process() {
    let env = TestEnv::new();
    let mut run = env.run_command(&[] as &[&str], ["sh", "-c", "echo up; sleep 1000"]).spawn().unwrap();
    await_line(&mut run);
    let agent = processes_of(&env.instance()).into_iter().min().unwrap();
    kill_process(Pid::from_raw(i32::try_from(agent).unwrap()).unwrap(), Signal::KILL).unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(137));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the sandbox ended"), "{output:?}");
}

fn await_line(run: &mut std::process::Child) {
    use std::io::Read;
    let mut line = [0; 3];
    let stdout = run.stdout.as_mut().expect("its output is piped");
    stdout.read_exact(&mut line).expect("it says a line");
    assert_eq!(&line, b"up\n");
}
