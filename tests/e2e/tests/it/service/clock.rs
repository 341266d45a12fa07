//! A wall clock that jumps under a running server. The machine's own clock stays as it is: a
//! library that is loaded before the C library's adds to what the server is told.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use warren_e2e::{TestEnv, TestServer, eventually};

const SHIFTED_CLOCK: &str = include_str!("../../../probes/shifted_clock.c");

fn build(env: &TestEnv) -> PathBuf {
    let (source, library) = (env.path("shifted_clock.c"), env.path("shifted_clock.so"));
    fs::write(&source, SHIFTED_CLOCK).expect("the source is written");
    let built =
        Command::new("gcc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).output();
    let built = built.expect("gcc is there");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

#[test]
fn jumps_of_the_wall_clock_neither_end_a_sandbox_nor_spare_it() {
    const HOUR: i64 = 3600;
    let env = TestEnv::new();
    let shift = env.path("shift");
    let jump = |seconds: i64| fs::write(&shift, seconds.to_string()).unwrap();
    jump(0);
    let setup = TestServer::setup(&env).variable("LD_PRELOAD", build(&env)).variable("CLOCK_SHIFT", &shift);
    let server = setup.set("timeouts.sweep", "1s").start();
    let create = |flags: &[&str]| server.warren([&["create"], flags].concat()).ok().line();
    let made = Instant::now();
    let (mortal, lasting, kept) = (create(&["--ttl", "12s"]), create(&["--idle", "10m"]), create(&[]));
    for id in [&mortal, &kept] {
        server.shell(id, "echo work > file");
    }
    server.warren(["stop", &kept]).ok();
    for seconds in [HOUR, -HOUR, 10 * 365 * 24 * HOUR] {
        jump(seconds);
        assert!(
            (wall_clock_of(&server) - i64::try_from(now()).unwrap() - seconds).abs() < 60,
            "it did not jump"
        );
        std::thread::sleep(Duration::from_millis(1500));
        // A busy machine may take all of its time for the commands in between.
        let lives = server.status(&mortal) == "ready";
        assert!(lives || made.elapsed() > Duration::from_secs(11), "after a jump of {seconds} s");
        assert_eq!(server.shell(&lasting, "echo alive"), "alive");
    }
    eventually(Duration::from_secs(60), "its time is over", || server.status(&mortal) == "stopped");
    assert!(made.elapsed() > Duration::from_secs(11), "{:?}", made.elapsed());
    assert_eq!(server.status(&lasting), "ready");
    // Ten years are more than any history; what has files is no history.
    for id in [&mortal, &kept] {
        server.warren(["resume", id]).ok();
        assert_eq!(server.shell(id, "cat file"), "work");
    }
    server.finish();
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is after 1970").as_secs()
}

/// In seconds since 1970, as the server writes it down.
fn wall_clock_of(server: &TestServer<'_>) -> i64 {
    let key = server.warren(["keys", "create", "what time is it", "--json"]).ok().json();
    let made = key["created_at"].as_str().expect("keys have a date").to_owned();
    let seconds = Command::new("date").args(["-u", "+%s", "-d", &made]).output().expect("date is there");
    String::from_utf8_lossy(&seconds.stdout).trim().parse().expect("a date is a number of seconds")
}
