//! Disks, inodes and the kernel's tables: checks 42 to 44.

use std::process::Command;
use std::time::{Duration, Instant};

use warren_e2e::{TestEnv, probe, probe_file};

#[test]
fn check_42_a_full_disk_is_the_sandbox_s_own() {
    let env = TestEnv::new();
    let flags = ["--disk", "64m", "--inodes", "1000", "--user", "root"];
    for place in ["/tmp", "/home/user", "/usr/share", "/var/tmp"] {
        let words = [probe_file!("fill_disk.py"), vec![place.to_owned()]].concat();
        let output = env.run_with(&flags, words).ok().line();
        let (error, megabytes) = output.split_once(' ').unwrap();
        assert_eq!(error, "ENOSPC", "{place}: {output}");
        assert!((48..=80).contains(&megabytes.parse::<u32>().unwrap()), "{place}: {output}");
    }
    std::fs::write(env.path("host-file"), vec![0; 1 << 20]).unwrap();
}

#[test]
fn check_42_memory_file_systems_are_bounded() {
    let env = TestEnv::new();
    for (place, most) in [("/dev/shm", 64), ("/run", 64)] {
        let words = [probe_file!("fill_disk.py"), vec![place.to_owned()]].concat();
        let output = env.run_with(&["--memory", "128m", "--user", "root"], words).ok().line();
        let (error, megabytes) = output.split_once(' ').unwrap();
        assert!(error == "ENOSPC" && megabytes.parse::<u32>().unwrap() <= most, "{place}: {output}");
    }
    let output = env.run_with(
        &["--user", "root"],
        probe("n = 0\nwhile error_of(lambda: open(f'/run/{n}', 'x').close()) == 'done': n += 1\nprint(n)"),
    );
    assert!(output.ok().line().parse::<u32>().unwrap() <= 16_384);
    assert_eq!(
        env.run_with(&["--user", "root"], ["sh", "-c", "echo x > /dev/x"]).code,
        Some(2),
        "/dev is read-only"
    );
}

/// A default limit holds as well as the machine can; a single file never grows past it.
#[test]
fn check_42_one_file_is_never_larger_than_the_disk_limit() {
    let env = TestEnv::new();
    let body = "f = os.open('/tmp/f', os.O_CREAT | os.O_WRONLY)\nprint(error_of(lambda: os.pwrite(f, b'x', 11 << 30)))";
    let answer = env.run(probe(body)).ok().line();
    assert!(answer == "EFBIG" || answer == "ENOSPC", "{answer}");
}

#[test]
fn check_43_inodes_run_out_inside() {
    let env = TestEnv::new();
    let body = "n = 0\nos.mkdir('/tmp/d')\nwhile (e := error_of(lambda: open(f'/tmp/d/{n}', 'x').close())) == 'done': n += 1\nprint(e, n)";
    let output = env.run_with(&["--disk", "64m", "--inodes", "1000"], probe(body)).ok().line();
    let (error, count) = output.split_once(' ').unwrap();
    assert_eq!(error, "ENOSPC", "{output}");
    assert!((500..=1100).contains(&count.parse::<u32>().unwrap()), "{output}");
}

#[test]
fn check_43_a_huge_directory_and_a_deep_path_are_removed() {
    let env = TestEnv::new();
    let id = env.keep(&[] as &[&str]);
    let body = "os.mkdir('/tmp/many')\nfor n in range(100_000): os.close(os.open(f'/tmp/many/{n}', os.O_CREAT))\n\
                os.chdir('/tmp')\nfor n in range(4096):\n  os.mkdir('deeper'); os.chdir('deeper')\nprint('made')";
    assert_eq!(env.exec(&id, probe(body)).ok().line(), "made");
    env.warren(["ls"]).ok();
    let started = Instant::now();
    env.remove(&id).ok();
    assert!(started.elapsed() < Duration::from_secs(120), "removal took {:?}", started.elapsed());
    env.assert_clean();
}

/// One sandbox uses something up; its neighbour and the host still get their share.
#[test]
fn check_44_tables_of_the_kernel_are_not_used_up_for_others() {
    let env = TestEnv::alone();
    let backend = env.backend();
    let (greedy, neighbour) = (backend.sandbox(), backend.sandbox());
    let mut starved = Vec::new();
    for kind in KINDS {
        let words =
            |manner: &str| [probe_file!("exhaust.py"), vec![kind.to_owned(), manner.to_owned()]].concat();
        backend.spawn(&greedy, words("hold"));
        let full = format!("/tmp/full-{kind}");
        let wait =
            format!("for i in $(seq 300); do test -e {full} && exec cat {full}; sleep 0.1; done; exit 1");
        let refused = backend.exec(&greedy, ["sh", "-c", &wait]).line();
        assert!(!refused.contains("never"), "{kind} are not bounded: {refused}");
        let got = backend.exec(&neighbour, words("few")).line();
        let host = Command::new("/usr/bin/python3").args(&words("few")[1..]).output().unwrap().stdout;
        let host = String::from_utf8_lossy(&host);
        if (got.as_str(), host.trim()) != ("fine", "fine") {
            starved.push(kind);
            eprintln!("{kind}: one has {refused}; its neighbour {got}; the host {}", host.trim());
        }
        backend.exec(
            &greedy,
            ["sh", "-c", "kill -9 $(cat /tmp/pid-*); rm -f /tmp/full-* /tmp/pid-* /tmp/lock*; true"],
        );
    }
    assert!(starved.is_empty(), "{starved:?}");
    backend.destroy(&greedy);
    backend.destroy(&neighbour);
}

/// Objects of the kernel that a process can hold.
const KINDS: [&str; 11] = [
    "files",
    "sockets",
    "epolls",
    "inotify",
    "timers",
    "queues",
    "pipes",
    "eventfds",
    "semaphores",
    "locks",
    "terminals",
];
