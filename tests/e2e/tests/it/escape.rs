//! Ways out: descriptors, `/proc`, mounts, devices, control groups. Checks 1 to 4, 7, 9 to 11.

use std::fs;

use warren_e2e::{TestEnv, not_tested, probe, probe_file};

const USERS: [&str; 2] = ["user", "root"];

#[test]
fn check_01_links_of_proc_lead_only_inside() {
    let env = TestEnv::new();
    fs::write(env.path("canary"), "host").unwrap();
    for user in USERS {
        let words = [probe_file!("proc_links.py"), vec![env.path("canary").display().to_string()]].concat();
        assert_eq!(env.run_with(&["--user", user], words).ok().line(), "ok", "as {user}");
    }
}

#[test]
fn check_02_a_working_directory_is_inside_the_root() {
    let env = TestEnv::new();
    let id = env.keep(&["--user", "root"]);
    let inside = env.exec(&id, ["stat", "-c", "%d:%i", "/"]).ok().line();
    let link = "for n in $(seq 0 64); do ln -s /proc/self/fd/$n /tmp/link$n; done";
    env.exec(&id, ["sh", "-c", link]).ok();
    for number in 0..=64 {
        for place in
            [format!("/proc/self/fd/{number}"), format!("/proc/1/fd/{number}"), format!("/tmp/link{number}")]
        {
            let words = ["exec", &id, "--workdir", &place, "--", "sh", "-c"];
            let look =
                "pwd -P; cd /proc/self/cwd; while [ \"$(pwd -P)\" != / ]; do cd ..; done; stat -c %d:%i .";
            let output = env.warren(words.into_iter().chain([look]));
            match output.code {
                Some(0) => {
                    assert_eq!(output.text().lines().last(), Some(inside.as_str()), "{place}: {output:?}")
                }
                // Nothing was entered; which of Warren's own codes it is does not matter here.
                code => assert!(matches!(code, Some(125..=127)), "{place}: {output:?}"),
            }
        }
    }
    env.remove(&id).ok();
}

#[test]
fn check_03_processes_start_with_their_streams_only() {
    let env = TestEnv::new();
    let list =
        "print(sorted(int(n) for n in os.listdir('/proc/self/fd') if os.path.lexists('/proc/self/fd/' + n)))";
    assert_eq!(env.run(probe(list)).ok().line(), "[0, 1, 2]");
    let id = env.keep(&[] as &[&str]);
    assert_eq!(env.exec(&id, probe(list)).ok().line(), "[0, 1, 2]");
    let backend = env.backend();
    let sandbox = id.parse().unwrap();
    let start = warren_wire::guest::Start {
        argv: probe(list).iter().map(|word| word.as_str().into()).collect(),
        terminal: Some(warren_wire::guest::TerminalSize { columns: 80, rows: 24 }),
        ..Default::default()
    };
    assert_eq!(backend.follow(&sandbox, start).unwrap().line(), "[0, 1, 2]", "on a terminal");
    let found = backend.port().list().unwrap();
    let pid = found.iter().find(|found| found.id == sandbox).unwrap().pid.unwrap();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let entry = entry.unwrap();
        let target = fs::read_link(entry.path()).unwrap().display().to_string();
        let known = ["socket:", "pipe:", "anon_inode:", "/dev/null", "/dev/pts", "/proc", "/"];
        let known = known.iter().any(|kind| target.starts_with(kind));
        let outside = target.contains(&env.place().display().to_string());
        assert!(known && !outside, "the agent holds {target}");
        // The gauges of its own group, from which the sandbox's meminfo is made: to be read and
        // nothing else.
        if target.contains("cgroup") {
            let number = entry.file_name();
            let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", number.display())).unwrap();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
            let flags = u32::from_str_radix(flags, 8).unwrap();
            assert!(target.contains(&id) && flags & 3 == 0, "the agent holds {target} with flags {flags:o}");
        }
    }
    drop(backend);
    env.remove(&id).ok();
}

#[test]
fn check_04_the_agent_s_binary_cannot_be_written() {
    let env = TestEnv::new();
    env.run(["true"]).ok();
    let agent = fs::read_dir(env.data_dir())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("agent-"))
        .unwrap();
    let before = fs::read(&agent).unwrap();
    for user in USERS {
        let output = env.run_with(&["--user", user], probe_file!("agent_binary.py")).ok();
        assert_eq!(output.line(), "ok", "as {user}");
    }
    assert!(fs::read(&agent).unwrap() == before, "the agent's binary was changed");
}

/// A script whose interpreter is its starter: the agent's binary runs again, now with the sandbox
/// watching.
#[test]
fn check_04_a_script_cannot_have_the_agent_for_its_interpreter() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox_with(|spec| spec.user = Some("root".into()));
    let script = "printf '#!/proc/self/exe serve\n' > /tmp/script; chmod 755 /tmp/script";
    backend.exec(&id, ["sh", "-c", script]);
    backend.spawn(&id, probe_file!("watch_binaries.py"));
    for _ in 0..50 {
        let start = warren_wire::guest::Start { argv: vec!["/tmp/script".into()], ..Default::default() };
        if let Ok(result) = backend.follow(&id, start) {
            assert_ne!(result.exit.code, 0, "{}", String::from_utf8_lossy(&result.stderr));
        }
    }
    backend.exec(&id, ["touch", "/tmp/stop"]);
    let report = "while ! [ -e /tmp/report ]; do sleep 0.05; done; cat /tmp/report";
    let report = backend.exec(&id, ["sh", "-c", report]).line();
    assert!(report.starts_with("written: []"), "{report}");
    assert!(!report.contains(&env.data_dir().display().to_string()), "{report}");
    backend.destroy(&id);
}

#[test]
fn check_07_mounting_is_denied() {
    let env = TestEnv::new();
    for user in USERS {
        let output = env.run_with(&["--user", user], probe_file!("mounts.py")).ok();
        assert_eq!(output.line(), "ok", "as {user}");
    }
}

#[test]
fn check_09_settings_of_the_host_cannot_be_written() {
    let env = TestEnv::new();
    let settings =
        ["kernel/core_pattern", "kernel/modprobe", "kernel/hotplug", "vm/drop_caches", "kernel/hostname"];
    let values = || settings.map(|name| fs::read_to_string(format!("/proc/sys/{name}")).ok());
    let before = values();
    for user in USERS {
        let output = env.run_with(&["--user", user], probe_file!("host_settings.py")).ok();
        assert_eq!(output.line(), "ok", "as {user}");
    }
    assert_eq!(values(), before);
    if !std::path::Path::new("/sys/kernel/uevent_helper").exists() {
        not_tested!(9, "this kernel has no uevent_helper");
    }
}

#[test]
fn check_10_devices_cannot_be_made_or_found() {
    let env = TestEnv::new();
    for user in USERS {
        let output = env.run_with(&["--user", user], probe_file!("devices.py")).ok();
        assert_eq!(output.line(), "ok", "as {user}");
    }
}

#[test]
fn check_11_control_groups_cannot_be_reached() {
    let env = TestEnv::new();
    for user in USERS {
        let output = env.run_with(&["--user", user], probe_file!("control_groups.py")).ok();
        assert_eq!(output.line(), "ok", "as {user}");
    }
}
