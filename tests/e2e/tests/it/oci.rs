//! OCI runtimes, beyond the suite of all backends: their walls, and their own death half way.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use warren_core::{
    ByteSize, CreateRequest, Isolation, IsolationErrorKind, OwnerBond, SandboxId, SandboxSpec, TemplateName,
};
use warren_e2e::{TestEnv, causes, open_named};
use warren_isolate::{LinuxBackend, Oci, Runtime};
use warren_store::TemplateStore;
use warren_wire::guest::{Connection, FrameKind, Reader, Reply, Request, Start, parse_reply};

const PATIENCE: Duration = Duration::from_secs(60);

fn spec() -> SandboxSpec {
    SandboxSpec { user: Some("root".to_owned()), ..SandboxSpec::new(TemplateName::host()) }
}

fn request(env: &TestEnv, spec: SandboxSpec) -> CreateRequest {
    let templates = TemplateStore::open(&env.data_dir()).expect("the template store opens");
    let template = templates.get(&spec.template).expect("the template is there");
    let mut id = [0; 16];
    getrandom::fill(&mut id).expect("there is randomness");
    template.request(SandboxId::from_random(id), spec, OwnerBond::DiesWithOwner)
}

fn open(runtime: Runtime, env: &TestEnv) -> LinuxBackend {
    open_named(runtime.name(), &env.data_dir(), None).expect("the backend opens")
}

fn made(backend: &LinuxBackend, request: CreateRequest) -> SandboxId {
    backend.create(request).unwrap_or_else(|error| panic!("{}", causes(&error))).id
}

/// Runs a program to its end: its exit code and all that it wrote.
fn run(backend: &LinuxBackend, id: &SandboxId, words: &[&str]) -> (i32, String) {
    let stream = std::os::unix::net::UnixStream::from(backend.dial(id).expect("dial"));
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let argv = words.iter().map(|word| (*word).into()).collect();
    let start = Start { argv, follow: Some(Reader::Holds), ..Start::default() };
    let mut call = Connection::open(stream, &Request::Start(start)).expect("a call");
    call.reply().unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let mut output = Vec::new();
    loop {
        let frame = call.next_frame().expect("a frame").expect("an end");
        match frame.kind {
            FrameKind::Stdout | FrameKind::Stderr => output.extend_from_slice(&frame.payload),
            FrameKind::Message => {
                if let Reply::Exited(exit) = parse_reply(&frame.payload).expect("a reply") {
                    return (exit.code, String::from_utf8_lossy(&output).into_owned());
                }
            }
            FrameKind::Data | FrameKind::End => {}
        }
    }
}

fn leave_nothing(backend: LinuxBackend, env: &TestEnv) {
    for found in backend.list().expect("list") {
        backend.destroy(&found.id).expect("destroy");
    }
    assert!(backend.settle(PATIENCE), "clean-up does not end");
    drop(backend);
    assert_eq!(env.census(), Vec::<String>::new());
}

#[test]
fn walls_of_runtimes_stand() {
    for runtime in [Runtime::Crun, Runtime::Runc] {
        let env = TestEnv::new();
        let backend = open(runtime, &env);
        let mut spec = spec();
        spec.limits.memory = ByteSize::mib(256);
        let id = made(&backend, request(&env, spec));
        let shell = |text: &str| run(&backend, &id, &["sh", "-c", text]);
        let (_, status) = shell("cat /proc/self/status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it is told");
            line.trim().to_owned()
        };
        for set in ["CapBnd:", "CapPrm:", "CapEff:"] {
            assert_eq!(field(set), "00000000000000fb", "{runtime:?}: {set}");
        }
        assert_eq!((field("CapInh:"), field("CapAmb:")), ("0".repeat(16), "0".repeat(16)));
        assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".to_owned(), "2".to_owned()));
        assert_eq!(field("Seccomp_filters:"), "2", "{runtime:?}: the document's and our own");
        let (_, ids) = shell("cat /proc/self/uid_map");
        let ids: Vec<u32> = ids.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        assert!(ids[0] == 0 && ids[1] >= 0x7000_0000 && ids[2] == 65_535, "{runtime:?}: {ids:?}");
        let (_, mounts) = shell("cat /proc/self/mountinfo");
        let data = env.data_dir();
        assert!(!mounts.contains(&*data.to_string_lossy()) && !mounts.contains("/mnt"), "{mounts}");
        for refused in [
            "mount -t tmpfs none /tmp",
            "umount /proc",
            "unshare -U true",
            "mknod /tmp/disk b 254 0",
            "chroot / true",
            "echo 1 > /proc/sys/kernel/panic",
            "cat /proc/1/environ",
            "readlink /proc/1/fd/3",
            "cat /proc/1/maps",
            "nsenter -t 1 -m true",
        ] {
            assert_ne!(shell(refused).0, 0, "{runtime:?}: {refused}");
        }
        assert_eq!(shell("cat /proc/kcore /proc/keys /proc/kallsyms 2>/dev/null | wc -c").1.trim(), "0");
        assert_eq!(shell("ls /sys/class /sys/fs 2>/dev/null | wc -l").1.trim(), "0");
        let (_, memory) = shell("head -n 1 /proc/meminfo");
        assert_eq!(memory.split_whitespace().nth(1), Some("262144"), "{runtime:?}: {memory}");
        let (_, links) = shell("tail -n +3 /proc/net/dev | cut -d: -f1");
        assert_eq!(links.trim(), "lo", "{runtime:?}");
        let (code, said) = shell("python3 -c 'import pty,sys; sys.exit(pty.spawn([\"true\"]))'");
        assert_eq!(code, 0, "{runtime:?}: terminals work: {said}");
        let (code, said) = shell("echo x > /dev/shm/x && rm /dev/shm/x && test -e /run/warren/sudo");
        assert_eq!(code, 0, "{runtime:?}: {said}");
        leave_nothing(backend, &env);
    }
}

/// The numbers of a runtime's processes for this data directory. The stage, which becomes one of
/// them, is not yet one.
fn processes(runtime: Runtime, env: &TestEnv) -> Vec<i32> {
    let data = env.data_dir().to_string_lossy().into_owned();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        words.starts_with(runtime.name()) && words.contains(&data)
    })
    .collect()
}

#[test]
fn a_runtime_that_is_killed_half_way_leaves_nothing() {
    for runtime in Runtime::ALL {
        let env = TestEnv::new();
        let backend = open(runtime, &env);
        let (killed, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    for pid in processes(runtime, &env) {
                        let pid = Pid::from_raw(pid).expect("a number");
                        killed.fetch_add(
                            usize::from(kill_process(pid, Signal::KILL).is_ok()),
                            Ordering::Relaxed,
                        );
                    }
                }
            });
            for _ in 0..5 {
                match backend.create(request(&env, spec())) {
                    Ok(created) => drop(backend.destroy(&created.id)),
                    Err(error) => {
                        assert_eq!(error.kind, IsolationErrorKind::Layer, "{}", causes(&error));
                        assert!(causes(&error).contains(runtime.name()), "{}", causes(&error));
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        let (killed, failed) = (killed.into_inner(), failed.into_inner());
        assert!(killed > 0 && failed > 0, "{runtime:?}: none was killed in time ({killed}, {failed})");
        assert!(backend.settle(PATIENCE));
        assert_eq!(env.census(), Vec::<String>::new(), "{runtime:?}");
        let id = made(&backend, request(&env, spec()));
        assert_eq!(run(&backend, &id, &["echo", "well"]), (0, "well\n".to_owned()));
        leave_nothing(backend, &env);
    }
}

/// Begins a sandbox in a process that is killed when the stage is done, and says whether the
/// runtime ended with it, before it had started anything.
fn ends_with_its_server(runtime: Runtime) -> bool {
    let env = TestEnv::new();
    let id = request(&env, spec()).id;
    let mut life = Command::new(env!("CARGO_BIN_EXE_life"));
    life.env("WARREN_TEST_BACKEND", runtime.name()).arg(env.data_dir());
    let output = life.args(["oci.staged", "create", id.as_str()]).output().expect("it can be started");
    assert_eq!(output.status.signal(), Some(9), "{runtime:?}: {output:?}");
    let runs =
        || !processes(runtime, &env).is_empty() || env.census().iter().any(|left| left.contains("process:"));
    let deadline = Instant::now() + Duration::from_secs(5);
    while runs() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(1));
    let place = env.data_dir().join("oci").join(runtime.name()).join("sandboxes").join(id.as_str());
    let ended = !runs() && !place.join("runtime/pid").exists();
    leave_nothing(open(runtime, &env), &env);
    ended
}

#[test]
fn a_runtime_ends_with_the_process_that_started_it() {
    for runtime in Runtime::ALL {
        // The kill comes late where the machine is busy, and the runtime may have done its work.
        assert!((0..3).any(|_| ends_with_its_server(runtime)), "{runtime:?} goes on alone");
    }
}

#[test]
fn gvisor_tells_what_it_cannot_and_writes_what_we_copy() {
    let env = TestEnv::new();
    let backend = open(Runtime::Runsc, &env);
    let checks = Oci::examine(Runtime::Runsc, &env.data_dir());
    let told = |name: &str| checks.iter().any(|check| check.name == name && !check.advice.is_empty());
    let old = checks.iter().any(|check| check.name == "runsc" && check.found.contains("20221219"));
    assert_eq!(told("runsc programs"), old, "{checks:?}");
    let id = made(&backend, request(&env, spec()));
    let (_, kernel) = run(&backend, &id, &["uname", "-r"]);
    let host = fs::read_to_string("/proc/sys/kernel/osrelease").expect("the machine has a kernel");
    assert_ne!(kernel.trim(), host.trim(), "it has a kernel of its own");
    let (code, said) = run(&backend, &id, &["sh", "-c", "echo work > /root/kept; chown 33:33 /root/kept"]);
    assert_eq!(code, 0, "{said}");
    let layers = backend.layered().expect("it has layers").writable(&id).expect("writable");
    let kept = std::path::PathBuf::from(format!("/proc/self/fd/{}/upper-0/root/kept", layers.as_raw_fd()));
    assert_eq!(fs::read_to_string(&kept).expect("it is there at once"), "work\n");
    assert_eq!(fs::metadata(&kept).expect("it has an owner").uid(), 33, "as on every backend");
    // What it shares with us is no longer its own to write.
    assert_ne!(run(&backend, &id, &["sh", "-c", "echo x > /run/warren/more"]).0, 0);
    assert_ne!(run(&backend, &id, &["sh", "-c", "rm /run/warren/agent.sock"]).0, 0);
    let full = "for file in /run/warren/* /run/warren/plan; do dd if=/dev/zero of=$file bs=4096 count=1 && echo $file; done";
    let (_, filled) = run(&backend, &id, &["sh", "-c", &format!("cd /; ({full}) 2>/dev/null")]);
    assert_eq!(filled, "", "nor are the files in it");
    let shared = env.data_dir().join("oci/runsc/sandboxes").join(id.as_str()).join("agent");
    let mut left = fs::read_dir(&shared).expect("it is there").flatten().collect::<Vec<_>>();
    left.retain(|file| file.metadata().is_ok_and(|found| found.is_file() && found.uid() != 0));
    assert!(left.is_empty(), "a sandbox owns {left:?}");
    leave_nothing(backend, &env);
}
