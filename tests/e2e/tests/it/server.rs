//! The base of a process that answers for many sandboxes: calls that end, figures that cost
//! nothing, limits it takes over.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use warren_core::{ByteSize, IsolationErrorKind, OwnerBond, Pulse, SandboxId, SandboxSpec, TemplateName};
use warren_e2e::{Backend, TestEnv, eventually, has_ended, probe};

fn spec() -> SandboxSpec {
    SandboxSpec::new(TemplateName::host())
}

/// A call to a frozen agent waits in a queue. When the queue is full, the caller is told, and does
/// not wait.
#[test]
fn dialling_a_frozen_sandbox_never_hangs() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox();
    backend.port().freeze(&id).unwrap();
    let started = Instant::now();
    let mut queued: Vec<OwnedFd> = Vec::new();
    let refused = loop {
        match backend.port().dial(&id) {
            Ok(connection) => queued.push(connection),
            Err(error) => break error,
        }
        assert!(queued.len() < 1000, "nothing is ever full");
    };
    assert_eq!(refused.kind, IsolationErrorKind::Busy);
    let asked = Instant::now();
    for _ in 0..100 {
        assert_eq!(backend.port().dial(&id).unwrap_err().kind, IsolationErrorKind::Busy);
    }
    assert!(asked.elapsed() < Duration::from_secs(5), "it took {:?}", asked.elapsed());
    assert!(started.elapsed() < Duration::from_secs(60), "it took {:?}", started.elapsed());
    assert!(queued.len() > 100, "{} callers wait", queued.len());
    drop(queued);
    backend.port().thaw(&id).unwrap();
    assert_eq!(backend.exec(&id, ["echo", "back"]).line(), "back");
    backend.destroy(&id);
}

#[test]
fn dialling_says_whether_a_sandbox_has_ended_or_never_was() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.create(spec(), OwnerBond::Outlives);
    let kind = |id: &SandboxId| backend.port().dial(id).unwrap_err().kind;
    assert_eq!(kind(&SandboxId::from_random([7; 16])), IsolationErrorKind::NotFound);
    let watched = backend.port().watch(&id).unwrap();
    backend.kill_first_process(&id);
    assert!(has_ended(&watched, Duration::from_secs(60)));
    // A program that another test is just starting has a copy of the listener until it executes.
    let ended = || backend.port().dial(&id).is_err_and(|error| error.kind == IsolationErrorKind::Ended);
    eventually(Duration::from_secs(60), "nobody listens", ended);
    backend.port().halt(&id).unwrap();
    assert_eq!(kind(&id), IsolationErrorKind::Ended);
    backend.destroy(&id);
    assert_eq!(kind(&id), IsolationErrorKind::NotFound);
}

/// On a machine without quotas, usage is watched by the process that answers for the sandbox.
#[test]
fn a_found_sandbox_is_held_to_its_disk_limit_and_its_end_has_a_reason() {
    let env = TestEnv::new();
    let mut limited = spec();
    limited.limits.disk = ByteSize::mib(32);
    let id = env.backend().create(limited.clone(), OwnerBond::Outlives);
    let backend = env.backend();
    if backend.port().capabilities().disk_quota == warren_core::DiskQuota::Project {
        backend.destroy(&id);
        return;
    }
    let watched = backend.port().watch(&id).unwrap();
    fill(&backend, &id, 20);
    assert!(!has_ended(&watched, Duration::from_secs(2)), "it is within its limit");
    assert!(!backend.port().usage(&id).unwrap().disk_exceeded);
    fill(&backend, &id, 40);
    assert!(has_ended(&watched, Duration::from_secs(60)), "it is beyond its limit");
    assert!(backend.port().usage(&id).unwrap().disk_exceeded);
    backend.port().halt(&id).unwrap();
    let usage = backend.port().usage(&id).unwrap();
    assert!(usage.disk_exceeded && usage.disk_bytes > 32 << 20 && usage.cpu_ns == 0, "{usage:?}");
    look_after_the_rest(&backend, &id, limited);
    backend.destroy(&id);
}

/// It keeps the files it holds, so that they can be fetched or removed, but it cannot take more.
fn look_after_the_rest(backend: &Backend<'_>, id: &SandboxId, limited: SandboxSpec) {
    let request = backend.request(limited, OwnerBond::Outlives);
    let request =
        warren_core::CreateRequest { id: id.clone(), state: warren_core::RootState::Kept, ..request };
    backend.port().create(request).expect("it starts again");
    let watched = backend.port().watch(id).expect("it is watched");
    assert!(!has_ended(&watched, Duration::from_secs(2)), "it may keep what it had");
    assert!(!backend.port().usage(id).expect("it has figures").disk_exceeded);
    fill(backend, id, 5);
    assert!(has_ended(&watched, Duration::from_secs(60)), "it took more");
    assert!(backend.port().usage(id).expect("it has figures").disk_exceeded);
}

/// Writes so many MiB, each time to another file. The sandbox may end before the answer.
fn fill(backend: &Backend<'_>, id: &SandboxId, mib: usize) {
    let script = format!("dd if=/dev/zero of=/tmp/file-{mib} bs=1M count={mib} status=none; sync");
    backend.spawn(id, ["sh", "-c", &script]);
}

#[test]
fn a_pulse_tells_work_from_idleness() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox();
    let pulse = || backend.port().pulse(&id).unwrap();
    let mut idle = [Pulse::default(); 2];
    // On a busy machine it takes a while to come to rest.
    eventually(Duration::from_secs(60), "it is idle", || {
        idle[0] = pulse();
        std::thread::sleep(Duration::from_secs(1));
        idle[1] = pulse();
        idle[1].cpu_ns - idle[0].cpu_ns < 10_000_000
            && (idle[1].io_bytes, idle[1].connections) == (idle[0].io_bytes, 0)
    });
    assert_eq!(backend.exec(&id, probe("sum(range(10_000_000))")).exit.code, 0);
    assert!(pulse().cpu_ns > idle[1].cpu_ns + 20_000_000, "{:?} after {idle:?}", pulse());
    // Past the cache, so that it is this process that writes and not the kernel, later.
    let direct = "dd if=/dev/zero of=/home/user/f bs=1M count=8 oflag=direct status=none";
    assert_eq!(backend.exec(&id, ["sh", "-c", direct]).exit.code, 0);
    let usage = backend.port().usage(&id).unwrap();
    if usage.io_bytes == 0 {
        warren_e2e::not_tested!(
            0,
            "this machine counts no bytes of I/O: on cgroup v1, only throttled devices"
        );
    } else {
        assert!(usage.io_bytes >= 8 << 20, "{usage:?}");
    }
    backend.destroy(&id);
    assert_eq!(backend.port().pulse(&id).unwrap_err().kind, IsolationErrorKind::NotFound);
}

/// A server looks at every sandbox each minute, and at all of them when it starts.
#[test]
fn looking_at_many_sandboxes_costs_next_to_nothing() {
    const COUNT: u32 = 300;
    let env = TestEnv::alone();
    let backend = env.backend();
    let ids: Vec<_> = (0..COUNT).map(|_| backend.create(spec(), OwnerBond::Outlives)).collect();
    assert_eq!(
        backend.exec(&ids[0], probe("for n in range(20_000): open(f'/tmp/{n}', 'w').close()")).exit.code,
        0
    );
    let started = Instant::now();
    let again = env.backend();
    let listed = again.port().list().unwrap();
    let opening = started.elapsed();
    assert!(listed.len() == ids.len() && listed.iter().all(|found| found.alive));
    let watches: Vec<_> = ids.iter().map(|id| again.port().watch(id).unwrap()).collect();
    let (cpu, started) = (process_time(), Instant::now());
    assert!(ids.iter().all(|id| again.port().pulse(id).is_ok()));
    let (pulses, cpu) = (started.elapsed(), process_time() - cpu);
    let started = Instant::now();
    assert!(ids.iter().all(|id| again.port().usage(id).is_ok()));
    let usages = started.elapsed();
    let report = format!(
        "opening with {COUNT}: {opening:?}; a pulse: {:?} ({:?} of processor); usage: {:?}",
        pulses / COUNT,
        cpu / COUNT,
        usages / COUNT
    );
    assert!(opening < Duration::from_secs(3), "{report}");
    // A thousand each minute are less than three percent of a processor, in a build without
    // optimization and on a slow machine, with all that other threads do meanwhile.
    assert!(cpu / COUNT < Duration::from_micros(1500), "{report}");
    drop(watches);
    ids.iter().for_each(|id| again.port().destroy(id).unwrap());
    assert!(again.port().settle(Duration::from_secs(60)));
}

fn process_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(now).expect("time goes on")
}
