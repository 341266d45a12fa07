//! Rights, set-id programs, background processes and core dumps. Checks 16, 18, 19.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use warren_e2e::{TestEnv, eventually, not_tested, probe, probe_file, processes_of};

#[test]
fn check_16_set_id_programs_gain_nothing() {
    let env = TestEnv::new();
    let id = env.keep(&["--user", "root"]);
    let make = "cp /usr/bin/python3 /tmp/suid && chown 0:0 /tmp/suid && chmod 6755 /tmp/suid && stat -c %a /tmp/suid";
    assert_eq!(env.exec(&id, ["sh", "-c", make]).ok().line(), "6755");
    let ids = "import os; print(os.getresuid(), os.getresgid())";
    for program in ["/tmp/suid", "/usr/bin/python3"] {
        let output = env.warren(["exec", &id, "--user", "1000", "--", program, "-c", ids]).ok();
        assert_eq!(output.line(), "(1000, 1000, 1000) (1000, 1000, 1000)", "{program}");
    }
    // Programs of the template with the bit set, such as `su` and `passwd`, run as whoever starts
    // them.
    let su = "find /usr/bin -perm -4000 -type f | head -1";
    let program = env.exec(&id, ["sh", "-c", su]).ok().line();
    if program.is_empty() {
        not_tested!(16, "this machine has no set-user-id program");
    } else {
        let body = format!(
            "import subprocess\nchild = subprocess.Popen(['{program}'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, \
             stderr=subprocess.DEVNULL)\nprint([line.split() for line in open(f'/proc/{{child.pid}}/status') \
             if line.startswith(('Uid', 'CapEff'))] if child.poll() is None else 'gone')\nchild.kill()"
        );
        let output = env
            .warren(["exec", &id, "--user", "1000", "--"].map(str::to_owned).into_iter().chain(probe(&body)));
        let line = output.ok().line();
        assert!(
            line == "gone"
                || (line.contains("'1000', '1000', '1000', '1000'") && line.contains("0000000000000000")),
            "{line}"
        );
    }
    env.remove(&id).ok();
}

#[test]
fn check_16_capabilities_of_files_are_refused_or_worth_nothing() {
    let env = TestEnv::new();
    for user in ["user", "root"] {
        assert_eq!(
            env.run_with(&["--user", user], probe_file!("file_capabilities.py")).ok().line(),
            "ok",
            "as {user}"
        );
    }
}

/// The same walls for every way in: a run, an exec, a terminal, and the agent itself.
#[test]
fn check_104_every_way_in_has_the_same_rights() {
    let env = TestEnv::new();
    let id = env.keep(&[] as &[&str]);
    let rows = ["Seccomp:", "NoNewPrivs:", "CapBnd:", "CapInh:", "CapAmb:", "Groups:"];
    let pick = |status: &str| -> Vec<String> {
        let wanted = status.lines().filter(|line| rows.iter().any(|row| line.starts_with(row)));
        wanted.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let agent = processes_of(&id).into_iter().min().unwrap();
    let agent = pick(&fs::read_to_string(format!("/proc/{agent}/status")).unwrap());
    let bound = "CapBnd: 00000000000000fb";
    assert_eq!(
        agent,
        [
            "Groups:",
            "CapInh: 0000000000000000",
            bound,
            "CapAmb: 0000000000000000",
            "NoNewPrivs: 1",
            "Seccomp: 2"
        ]
    );
    let sandbox = id.parse().unwrap();
    let backend = env.backend();
    for user in ["root", "nobody", "4321:4321"] {
        let exec = env.warren(["exec", &id, "--user", user, "--", "cat", "/proc/self/status"]).ok();
        let start = warren_wire::guest::Start {
            argv: vec!["cat".into(), "/proc/self/status".into()],
            user: Some(user.into()),
            terminal: Some(warren_wire::guest::TerminalSize { columns: 80, rows: 24 }),
            ..Default::default()
        };
        let terminal = backend.follow(&sandbox, start).unwrap().line();
        let run = env.run_with(&["--user", user], ["cat", "/proc/self/status"]).ok();
        for (way, status) in [("exec", exec.text()), ("terminal", terminal), ("run", run.text())] {
            let mut found = pick(&status);
            // No group but the user's own.
            let group =
                ["Groups:", "Groups: 0", "Groups: 65534", "Groups: 4321"].contains(&found.remove(0).as_str());
            assert!(group, "{way} as {user}: {status}");
            assert_eq!(found, agent[1..], "{way} as {user}");
        }
    }
    drop(backend);
    env.remove(&id).ok();
}

#[test]
fn check_18_background_processes_stay_in_the_group_and_end_with_it() {
    let env = TestEnv::new();
    let id = env.keep(&[] as &[&str]);
    // A daemon as they are made: forked twice, a session of its own, no stream left.
    let daemon = "(setsid sh -c 'sleep 1000 & exec sleep 1000' </dev/null >/dev/null 2>&1 &) &";
    env.exec(&id, ["sh", "-c", daemon]).ok();
    eventually(Duration::from_secs(60), "both run on", || {
        let running = env.exec(&id, ["sh", "-c", "grep -al 1000 /proc/[0-9]*/cmdline | wc -l"]).ok().line();
        running.parse::<u32>().unwrap() >= 2
    });
    let sleeping = processes_of(&id);
    assert!(sleeping.len() >= 3, "{sleeping:?}");
    env.remove(&id).ok();
    assert_eq!(processes_of(&id), [] as [u32; 0]);
}

#[test]
fn a_run_ends_with_what_it_left_in_the_background() {
    let env = TestEnv::new();
    let started = Instant::now();
    env.run(["sh", "-c", "setsid sleep 1000 & exit 0"]).ok();
    assert!(started.elapsed() < Duration::from_secs(60), "it is not waited for");
    assert!(processes_of(&env.instance()).is_empty());
}

#[test]
fn check_19_no_core_handler_of_the_host_runs() {
    let env = TestEnv::alone();
    let place = env.path("cores");
    fs::create_dir(&place).unwrap();
    let handler = place.join("handler");
    // The kernel gives the handler no environment and the first 127 bytes of the line.
    let script = format!("#!/bin/sh\ncat > /dev/null\necho \"$@\" >> {}/ran\n", place.display());
    fs::write(&handler, script).unwrap();
    fs::set_permissions(&handler, fs::Permissions::from_mode(0o755)).unwrap();
    let Some(_pattern) = CorePattern::set(&format!("|{} %p %e %E", handler.display())) else {
        not_tested!(19, "the core pattern cannot be written");
        return;
    };
    let ran = || fs::read_to_string(place.join("ran")).unwrap_or_default();
    let crash =
        "ulimit -c unlimited 2>/dev/null; ulimit -c 0; exec python3 -c 'import os; os.kill(os.getpid(), 11)'";
    for user in ["user", "root"] {
        env.run_with(&["--user", user], ["sh", "-c", crash]).ended(139);
        env.run_with(&["--user", user], probe_file!("core_limit.py")).ok();
    }
    assert_eq!(ran(), "", "the handler ran for a sandbox");
    // The handler itself works: else nothing was shown.
    let outside =
        std::process::Command::new("sh").args(["-c", "ulimit -c 0; kill -SEGV $$"]).status().unwrap();
    assert!(!outside.success());
    let deadline = Instant::now() + Duration::from_secs(60);
    while ran().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!ran().is_empty(), "the handler does not even run for the host");
}

/// The machine's core pattern, put back when dropped.
struct CorePattern(String);

impl CorePattern {
    const FILE: &str = "/proc/sys/kernel/core_pattern";

    fn set(pattern: &str) -> Option<Self> {
        let before = Self(fs::read_to_string(Self::FILE).ok()?);
        fs::write(Self::FILE, pattern).ok().map(|()| before)
    }
}

impl Drop for CorePattern {
    fn drop(&mut self) {
        drop(fs::write(Self::FILE, &self.0));
    }
}
