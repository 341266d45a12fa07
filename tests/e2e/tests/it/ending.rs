//! Sandboxes that do not want to end: check 50.

use std::time::{Duration, Instant};

use warren_core::SandboxId;
use warren_e2e::{Backend, TestEnv, eventually, probe, processes_of};

const DEADLINE: Duration = Duration::from_secs(60);

#[track_caller]
fn ends_in_time(backend: &Backend<'_>, id: &SandboxId) {
    let started = Instant::now();
    backend.destroy(id);
    assert!(started.elapsed() < DEADLINE, "destroy took {:?}", started.elapsed());
    assert!(processes_of(id.as_str()).is_empty());
}

fn wait_for(backend: &Backend<'_>, id: &SandboxId, file: &str) {
    let script = format!("for i in $(seq 600); do test -e {file} && exit 0; sleep 0.1; done; exit 1");
    assert_eq!(backend.exec(id, ["sh", "-c", &script]).exit.code, 0, "{file} does not appear");
}

#[test]
fn check_50_ignoring_signals_does_not_help() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox();
    let body = "import signal, time\nfor n in range(1, 65):\n  error_of(lambda: signal.signal(n, signal.SIG_IGN))\n\
                open('/tmp/up', 'w').close()\ntime.sleep(1000)";
    backend.spawn(&id, probe(body));
    wait_for(&backend, &id, "/tmp/up");
    ends_in_time(&backend, &id);
}

#[test]
fn check_50_stopped_and_traced_processes_end() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox();
    // A child that asks to be traced and stops, held by a tracer that stops itself; and a whole
    // group that is stopped.
    let body = "import signal, time\nfor _ in range(5):\n  child = os.fork()\n  if child == 0:\n    call(101, 0, 0, 0, 0)\n    \
                os.kill(os.getpid(), signal.SIGSTOP)\n    time.sleep(1000)\n  os.waitpid(child, os.WUNTRACED)\n\
                if os.fork() == 0:\n  os.kill(os.getpid(), signal.SIGSTOP)\nopen('/tmp/up', 'w').close()\nos.kill(os.getpid(), signal.SIGSTOP)";
    backend.spawn(&id, probe(body));
    wait_for(&backend, &id, "/tmp/up");
    ends_in_time(&backend, &id);
}

#[test]
fn check_50_a_frozen_sandbox_ends() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox();
    backend.spawn(&id, ["sleep", "1000"]);
    backend.port().freeze(&id).unwrap();
    ends_in_time(&backend, &id);
}

#[test]
fn check_50_a_sandbox_that_makes_files_while_it_is_removed_ends() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox();
    let body = "open('/tmp/up', 'w').close()\nn = 0\nwhile True:\n  n += 1\n  error_of(lambda: os.makedirs(f'/tmp/a{n % 50}/b/c'))\n  \
                error_of(lambda: os.symlink('/', f'/tmp/a{n % 50}/b/link{n}'))\n  error_of(lambda: os.rename(f'/tmp/a{n % 50}', f'/tmp/z{n % 50}'))";
    for _ in 0..4 {
        backend.spawn(&id, probe(body));
    }
    wait_for(&backend, &id, "/tmp/up");
    std::thread::sleep(Duration::from_millis(200));
    ends_in_time(&backend, &id);
}

/// A machine that goes down sends this signal to every process.
#[test]
fn the_machine_s_signal_ends_a_sandbox_and_one_from_inside_does_not() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox_with(|spec| spec.user = Some("root".into()));
    // Sent in every way there is, also with a made-up sender: rt_sigqueueinfo with the code of a
    // queued signal and pid 0.
    let body = "import signal, struct\nfor n in (signal.SIGTERM, signal.SIGINT):\n  error_of(lambda: os.kill(1, n))\n\
                \x20 for code in (0, -1, 0x80):\n    call(129, 1, int(n), struct.pack('iiiiii', n, 0, code, 0, 0, 0) + bytes(104))\nprint('ok')";
    assert_eq!(backend.exec(&id, probe(body)).line(), "ok");
    assert_eq!(backend.exec(&id, ["echo", "alive"]).line(), "alive");

    backend.spawn(&id, ["sh", "-c", "trap '' TERM INT; touch /tmp/up; while :; do sleep 1000; done"]);
    backend.spawn(&id, ["sh", "-c", "trap 'touch /tmp/told; exit' TERM; while :; do sleep 0.1; done"]);
    wait_for(&backend, &id, "/tmp/up");
    let agent = backend.port().list().unwrap().into_iter().find(|found| found.id == id).unwrap().pid.unwrap();
    let pid = rustix::process::Pid::from_raw(agent.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    eventually(DEADLINE, "all of it ends", || processes_of(id.as_str()).is_empty());
    backend.destroy(&id);
}
