//! Resources that the whole machine has once: memory for compiled filters, buffers of sockets,
//! neighbours, modules, threads of the kernel. One sandbox takes all it can get; another, and the
//! host, notice nothing.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use warren_core::ByteSize;
use warren_e2e::{Internet, TestEnv, not_tested, probe_file, processes_of};

use crate::network::{create, finish, serve};

const USERS: [&str; 2] = ["user", "root"];

#[test]
fn check_105_no_filter_is_compiled_for_a_sandbox() {
    let env = TestEnv::new();
    for user in USERS {
        assert_eq!(env.run_with(&["--user", user], probe_file!("filters.py")).ok().line(), "ok", "as {user}");
    }
    assert_eq!(env.run_with(&["--strict"], probe_file!("filters.py")).ok().line(), "ok");
}

/// Programs that would load a filter of their own go on without.
#[test]
fn programs_that_load_filters_go_on_without() {
    let env = TestEnv::new();
    for (program, words) in [
        ("/usr/bin/man", "man -P cat man || man --version"),
        ("/usr/bin/file", "file /bin/sh"),
        ("/usr/bin/ssh-keygen", "ssh-keygen -q -t ed25519 -N '' -f /tmp/key"),
        ("/usr/bin/git", "git init -q /tmp/repository"),
        ("/usr/bin/gpg", "gpg --version"),
        ("/usr/bin/node", "node -e 'require(\"os\").networkInterfaces()'"),
    ] {
        if fs::exists(program).unwrap() {
            env.run(["sh", "-c", words]).ok();
        }
    }
}

#[test]
fn check_106_flags_leases_and_modules_are_refused() {
    let env = TestEnv::new();
    for user in USERS {
        assert_eq!(
            env.run_with(&["--user", user], probe_file!("file_flags.py")).ok().line(),
            "ok",
            "as {user}"
        );
    }
}

/// Each opened file of `/proc/pressure` is a thread of the kernel, and everybody may open one.
#[test]
fn check_107_nothing_of_proc_opens_for_writing() {
    let env = TestEnv::new();
    for user in USERS {
        let found = env.run_with(&["--user", user], probe_file!("proc_writable.py")).ok().line();
        assert_eq!(found, "[]", "as {user}");
    }
    let bind = "python3 -c 'import socket; socket.create_server((\"\", 80))'";
    for user in USERS {
        env.run_with(&["--user", user], ["sh", "-c", bind]).ok();
    }
}

/// At most a quarter of the memory on v1; on v2 they are memory, and a sandbox with too much is
/// killed.
#[test]
fn check_108_buffers_of_sockets_are_counted() {
    let env = TestEnv::new();
    let backend = env.backend();
    for kind in ["udp", "tcp"] {
        let id = backend.sandbox_with(|spec| spec.limits.memory = ByteSize::mib(64));
        let words = [probe_file!("socket_buffers.py"), vec![kind.to_owned()]].concat();
        let result = backend.exec(&id, words);
        if result.exit.code == 137 {
            assert!(backend.port().usage(&id).unwrap().oom_kills > 0, "{kind}: killed by another");
        } else {
            let held: u64 = result.line().parse().unwrap();
            assert!(held <= 40, "{kind}: buffers held {held} MiB of a sandbox with 64");
        }
        backend.destroy(&id);
    }
}

#[test]
fn check_109_a_sandbox_makes_no_neighbours() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let (greedy, other) = (create(&server, &["--net", "allow", "--allow", "*"]), server.create());
    let words = probe_file!("neighbours_of_link.py");
    let words: Vec<&str> =
        ["exec", &greedy, "--"].into_iter().chain(words.iter().map(String::as_str)).collect();
    server.warren(&words).ok();
    let inside = processes_of(&greedy).first().expect("the sandbox has processes").to_string();
    for family in ["-4", "-6"] {
        let listed = Command::new("nsenter")
            .args(["-t", &inside, "-n", "ip", family, "neigh", "show", "nud", "all"])
            .output();
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        let made = listed.lines().filter(|line| line.contains("eth0") && !line.contains("PERMANENT"));
        assert_eq!(made.count(), 0, "{listed}");
    }
    for id in [&greedy, &other] {
        crate::network::assert_open(&server, id, &["http", "198.51.100.10", "80"]);
    }
    finish(server, &internet);
}

/// The kernel's memory for compiled filters is used up while a sandbox is made: it waits for some,
/// and else says what is wrong.
#[test]
fn check_110_a_create_waits_for_memory_for_its_filter() {
    let env = TestEnv::alone();
    let backend = env.backend();
    let Some(limit) = FilterMemory::take_away() else {
        not_tested!(110, "the memory for compiled filters cannot be limited");
        return;
    };
    let spec = warren_core::SandboxSpec::new(warren_core::TemplateName::host());
    let refused = backend.port().create(backend.request(spec.clone(), warren_core::OwnerBond::DiesWithOwner));
    let Err(error) = refused else {
        drop(limit);
        not_tested!(110, "this kernel interprets filters that it has no memory to compile");
        return;
    };
    assert_eq!(error.kind, warren_core::IsolationErrorKind::Exhausted, "{error}");
    assert!(error.to_string().contains("net.core.bpf_jit_limit"), "{error}");
    let giver = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(limit);
    });
    let started = Instant::now();
    let id = backend.create(spec, warren_core::OwnerBond::DiesWithOwner);
    giver.join().unwrap();
    assert!(started.elapsed() < Duration::from_secs(60), "it took {:?}", started.elapsed());
    backend.destroy(&id);
}

/// The machine's limit on compiled filters, at its least until dropped.
struct FilterMemory(String);

impl FilterMemory {
    const FILE: &str = "/proc/sys/net/core/bpf_jit_limit";

    fn take_away() -> Option<Self> {
        let before = Self(fs::read_to_string(Self::FILE).ok()?);
        fs::write(Self::FILE, "4096").ok().map(|()| before)
    }
}

impl Drop for FilterMemory {
    fn drop(&mut self) {
        drop(fs::write(Self::FILE, self.0.trim()));
    }
}

/// Answers that wait in netlink sockets, and locks on files: no control group counts them.
#[test]
fn check_111_kernel_memory_that_nobody_counts_is_watched() {
    let env = TestEnv::alone();
    let backend = env.backend();
    let (greedy, other) = (backend.sandbox(), backend.sandbox());
    for kind in ["answers", "process locks", "file locks"] {
        let words = [probe_file!("uncounted.py"), vec![kind.to_owned()]].concat();
        let result = backend.exec(&greedy, words);
        assert_eq!(result.exit.code, 137, "{kind}: {}", String::from_utf8_lossy(&result.stderr));
        for id in [&greedy, &other] {
            assert_eq!(backend.exec(id, ["echo", "fine"]).line(), "fine", "{kind}");
        }
    }
    backend.destroy(&greedy);
    backend.destroy(&other);
}
