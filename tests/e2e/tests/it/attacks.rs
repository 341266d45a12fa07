//! The attacks of SECURITY.md behind each OCI runtime, at a bounded cost: one of each kind. Those
//! that are refused by the machine's own kernel are native's probes as they are; gVisor refuses
//! most of them in words of its own, or lets them happen to a kernel that is the sandbox's.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::time::Duration;

use warren_core::{ByteSize, SandboxId, SandboxSpec};
use warren_e2e::{Backend, ExecResult, TestEnv, eventually, probe, probe_file, processes_of};
use warren_wire::guest::Start;

const USERS: [&str; 2] = ["user", "root"];
const RUNTIMES: [&str; 3] = ["crun", "runc", "runsc"];
const PATIENCE: Duration = Duration::from_secs(60);

fn root(spec: &mut SandboxSpec) {
    spec.user = Some("root".to_owned());
}

fn run(backend: &Backend<'_>, id: &SandboxId, user: &str, words: &[String]) -> ExecResult {
    let argv = words.iter().map(|word| word.as_str().into()).collect();
    let start = Start { argv, user: Some(user.into()), ..Start::default() };
    backend.follow(id, start).expect("the program starts")
}

fn host(file: &str) -> String {
    fs::read_to_string(file).expect("the host tells it").trim().to_owned()
}

/// The agent is root inside, like others, and what it holds is closed to them.
const AGENT: &str = "opened = [name for name in ('environ', 'mem', 'maps', 'auxv', 'cwd/.') \
                     if error_of(lambda: os.close(os.open(f'/proc/1/{name}', os.O_RDONLY))) == 'done']\n\
                     links = [name for name in ('root', 'exe') if error_of(lambda: os.readlink(f'/proc/1/{name}')) == 'done']\n\
                     traced = [how for how in (16, 0x4206) if call(101, how, 1, 0, 0) != 'EPERM']\n\
                     print(*(opened + links + traced) or ['ok'])";

#[test]
fn a_shared_kernel_refuses_the_same_behind_crun_and_runc() {
    for wall in ["crun", "runc"] {
        let env = TestEnv::new();
        let canary = env.path("canary");
        fs::write(&canary, "host").expect("a file");
        let canary = canary.display().to_string();
        let with = |words: Vec<String>, more: &[&str]| {
            words.into_iter().chain(more.iter().map(|word| (*word).to_owned())).collect::<Vec<_>>()
        };
        let (name, line) = (host("/proc/sys/kernel/hostname"), host("/proc/cmdline"));
        let attacks = [
            ("links of /proc", with(probe_file!("proc_links.py"), &[&canary]), "ok"),
            ("mounts", with(probe_file!("mounts.py"), &["refusals"]), "ok"),
            ("devices", probe_file!("devices.py"), "ok"),
            ("namespaces", probe_file!("namespaces.py"), "ok"),
            ("control groups", probe_file!("control_groups.py"), "ok"),
            ("settings of the host", probe_file!("host_settings.py"), "ok"),
            ("facts of the host", with(probe_file!("host_facts.py"), &[&name, &line]), "ok"),
            ("files of /proc", probe_file!("proc_writable.py"), "[]"),
            ("calls", probe_file!("denied_calls.py"), "ok"),
            ("32-bit calls", probe_file!("i386.py"), "31 31 31"),
            ("sockets", probe_file!("sockets.py"), "ok"),
            ("filters", probe_file!("filters.py"), "ok"),
            ("flags, leases and modules", probe_file!("file_flags.py"), "ok"),
            ("capabilities of files", probe_file!("file_capabilities.py"), "ok"),
            ("terminals", probe_file!("terminal_typing.py"), "ok"),
            ("the agent", probe(AGENT), "ok"),
        ];
        let backend = env.backend_named(wall);
        for user in USERS {
            let id = backend.sandbox_with(root);
            for (what, words, expected) in &attacks {
                let result = run(&backend, &id, user, words);
                let errors = String::from_utf8_lossy(&result.stderr);
                assert_eq!(
                    String::from_utf8_lossy(&result.stdout).trim(),
                    *expected,
                    "{wall} as {user}: {what}: {errors}"
                );
            }
            backend.destroy(&id);
        }
    }
}

#[test]
fn nothing_of_the_host_is_behind_gvisor_s_kernel() {
    let env = TestEnv::new();
    let canary = env.path("canary");
    fs::write(&canary, "host").expect("a file");
    let facts = [
        canary.display().to_string(),
        host("/proc/sys/kernel/hostname"),
        host("/proc/cmdline"),
        host("/proc/sys/kernel/osrelease"),
    ];
    let words = [probe_file!("own_kernel.py"), facts.to_vec()].concat();
    let backend = env.backend_named("runsc");
    let id = backend.sandbox_with(root);
    for user in USERS {
        let result = run(&backend, &id, user, &words);
        assert_eq!(result.line(), "ok", "as {user}");
        for more in
            [probe_file!("file_flags.py"), [probe_file!("mounts.py"), vec!["refusals".into()]].concat()]
        {
            assert_eq!(run(&backend, &id, user, &more).line(), "ok", "as {user}");
        }
        let memory =
            probe("print(error_of(lambda: open('/proc/1/mem', 'rb').read(1)), call(101, 16, 1, 0, 0))");
        assert_eq!(run(&backend, &id, user, &memory).line(), "EACCES EPERM", "as {user}");
    }
    // Names of devices are its own kernel's; on the host's disk there is none.
    let nodes =
        "for d in /tmp /root /home/user /var/tmp; do mknod $d/disk b 254 0; mknod $d/mem c 1 1; done; true";
    run(&backend, &id, "root", &["sh", "-c", nodes].map(str::to_owned));
    let layers = backend.layered().writable(&id).expect("its writable layers");
    let found = devices_below(Path::new(&format!("/proc/self/fd/{}", layers.as_raw_fd())));
    assert_eq!(found, Vec::<String>::new());
    drop(layers);
    backend.destroy(&id);
}

/// Nodes of devices other than an overlay's marks of what was removed.
fn devices_below(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory is listed").flatten();
    let mut found = Vec::new();
    for entry in entries {
        let about = entry.metadata().expect("it is there");
        let kind = about.file_type();
        let number = std::os::unix::fs::MetadataExt::rdev(&about);
        if kind.is_dir() {
            found.extend(devices_below(&entry.path()));
        } else if (kind.is_block_device() || kind.is_char_device()) && number != 0 {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn set_id_programs_gain_nothing_behind_a_runtime() {
    for wall in RUNTIMES {
        let env = TestEnv::new();
        let backend = env.backend_named(wall);
        let id = backend.sandbox_with(root);
        let make = "cp /usr/bin/python3 /var/tmp/suid && chown 0:0 /var/tmp/suid && chmod 6755 /var/tmp/suid";
        assert_eq!(backend.exec(&id, ["sh", "-c", make]).exit.code, 0, "{wall}");
        let ids = "import os; print(os.getresuid(), os.getresgid())";
        let words = ["/var/tmp/suid", "-c", ids].map(str::to_owned);
        let found = run(&backend, &id, "user", &words).line();
        assert_eq!(found, "(1000, 1000, 1000) (1000, 1000, 1000)", "{wall}");
        backend.destroy(&id);
    }
}

#[test]
fn no_socket_of_the_host_answers_behind_a_runtime() {
    let env = TestEnv::new();
    let name = format!("warren-host-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let _listening = UnixListener::bind_addr(&address).expect("a socket without a path");
    let _by_path = UnixListener::bind(env.path("host.sock")).expect("a socket with a path");
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port of the host");
    let port = tcp.local_addr().expect("it is bound").port();
    let body = format!(
        "import socket\ndef reaches(family, address):\n  with socket.socket(family) as s:\n    s.settimeout(2)\n    \
         return error_of(lambda: s.connect(address))\n\
         print(reaches(socket.AF_UNIX, '\\0{name}'), reaches(socket.AF_UNIX, '{}'), reaches(socket.AF_INET, ('127.0.0.1', {port})))",
        env.path("host.sock").display()
    );
    for wall in RUNTIMES {
        let backend = env.backend_named(wall);
        let id = backend.sandbox();
        assert_eq!(backend.exec(&id, probe(&body)).line(), "ECONNREFUSED ENOENT ECONNREFUSED", "{wall}");
        backend.destroy(&id);
    }
}

/// Traces that every kernel can hold; `neighbour_here` leaves more of them.
const TRACES: &str = "import socket, time\ns = socket.socket(socket.AF_UNIX); s.bind('\\0warren-neighbour'); s.listen()\n\
                      t = socket.socket(); t.bind(('127.0.0.1', 4711)); t.listen()\n\
                      open('/dev/shm/neighbour', 'w').write('here'); open('/tmp/neighbour', 'w').write('here')\n\
                      open('/tmp/ready', 'w').close()\ntime.sleep(600)";

#[test]
fn neighbours_behind_any_two_runtimes_see_nothing_of_each_other() {
    let env = TestEnv::new();
    for (left_wall, right_wall) in [("crun", "runc"), ("runc", "crun"), ("crun", "runsc"), ("runsc", "runsc")]
    {
        let (left_backend, right_backend) = (env.backend_named(left_wall), env.backend_named(right_wall));
        let (left, right) = (left_backend.sandbox(), right_backend.sandbox());
        let traces = if left_wall == "runsc" { probe(TRACES) } else { probe_file!("neighbour_here.py") };
        left_backend.spawn(&left, traces);
        eventually(PATIENCE, "it has left its traces", || {
            left_backend.exec(&left, ["test", "-e", "/tmp/ready"]).exit.code == 0
        });
        let seen = right_backend.exec(&right, probe_file!("neighbour_seen.py")).line();
        assert_eq!(seen, "nothing", "{right_wall} beside {left_wall}");
        let (ours, theirs) = (map_of(&left), map_of(&right));
        assert!(ours != theirs && ours[1] >= 65_536 && theirs[1] >= 65_536, "{ours:?} {theirs:?}");
        left_backend.destroy(&left);
        right_backend.destroy(&right);
    }
}

/// The host's ids of a sandbox, as the kernel has them for its processes; behind runsc, for the one
/// that opens files.
fn map_of(id: &SandboxId) -> Vec<u32> {
    let mut maps = processes_of(id.as_str()).into_iter().filter_map(|pid| {
        let map = fs::read_to_string(format!("/proc/{pid}/uid_map")).ok()?;
        let map: Vec<u32> = map.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        (map.len() == 3 && map[0] == 0 && map[2] == 65_535).then_some(map)
    });
    maps.next_back().expect("one of its processes has ids of its own")
}

/// A fork bomb, a memory bomb, files without end and a full disk, each with a neighbour beside it.
#[test]
fn bombs_behind_a_runtime_end_inside() {
    let fork = probe("while True:\n  error_of(os.fork)");
    let memory = [probe_file!("memory_bombs.py"), vec!["anonymous".to_owned()]].concat();
    let files = probe(
        "held = []\nwhile (e := error_of(lambda: held.append(os.open('/etc/passwd', os.O_RDONLY)))) == 'done': pass\nprint(e)",
    );
    for wall in RUNTIMES {
        let env = TestEnv::new();
        let backend = env.backend_named(wall);
        let neighbour = backend.sandbox();
        let fine = || assert_eq!(backend.exec(&neighbour, ["echo", "fine"]).line(), "fine", "{wall}");
        let small = |spec: &mut SandboxSpec| {
            spec.limits.memory = ByteSize::mib(256);
            spec.limits.pids = 200;
        };
        let id = backend.sandbox_with(small);
        assert_eq!(run(&backend, &id, "user", &files).line(), "EMFILE", "{wall}");
        fine();
        backend.spawn(&id, &fork);
        let watched = backend.port().watch(&id).expect("it is watched");
        let full = || backend.port().usage(&id).is_ok_and(|usage| usage.pids >= 190);
        eventually(PATIENCE, "the bomb is at its limit", || {
            // gVisor's kernel is made of processes too, and does without none of them.
            let over = wall == "runsc" && warren_e2e::has_ended(&watched, Duration::ZERO);
            assert!(backend.port().usage(&id).map_or(0, |usage| usage.pids) <= 200, "{wall}");
            full() || over
        });
        fine();
        backend.destroy(&id);
        // All are killed; two hundred of them take a moment to be gone.
        eventually(PATIENCE, "the bomb is gone", || processes_of(id.as_str()).is_empty());
        let id = backend.sandbox_with(small);
        let argv = memory.iter().map(|word| word.as_str().into()).collect();
        match backend.follow(&id, Start { argv, ..Start::default() }) {
            Ok(result) => assert_eq!(result.exit.code, 137, "{wall}"),
            Err(error) => assert_eq!(wall, "runsc", "the agent lives: {error}"),
        }
        fine();
        backend.destroy(&id);
        backend.destroy(&neighbour);
    }
}
