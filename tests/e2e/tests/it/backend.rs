//! A backend through its port: many sandboxes, freezing, figures.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use warren_core::{ByteSize, IsolationErrorKind, OwnerBond, SandboxSpec, TemplateName};
use warren_e2e::{TestEnv, eventually, probe, processes_of};

#[test]
fn two_hundred_sandboxes_live_at_once() {
    let env = TestEnv::alone();
    let backend = env.backend();
    let ids: Vec<_> = (0..200).map(|_| backend.sandbox()).collect();
    let listed = backend.port().list().unwrap();
    assert_eq!(listed.len(), 200);
    assert!(listed.iter().all(|found| found.alive && !found.frozen));
    assert_eq!(listed.iter().filter_map(|found| found.pid).collect::<HashSet<_>>().len(), 200);
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(backend.exec(id, ["echo", &number.to_string()]).line(), number.to_string());
    }
    let started = Instant::now();
    ids.iter().for_each(|id| backend.port().destroy(id).unwrap());
    assert!(backend.port().settle(Duration::from_secs(60)));
    assert!(started.elapsed() < Duration::from_secs(60), "removal took {:?}", started.elapsed());
    assert!(backend.port().list().unwrap().is_empty());
}

#[test]
fn a_frozen_sandbox_stands_still_and_goes_on() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox();
    backend.spawn(&id, ["sh", "-c", "n=0; while :; do n=$((n+1)); echo $n > /tmp/count; done"]);
    let count = || -> u64 { backend.exec(&id, ["cat", "/tmp/count"]).line().parse().unwrap_or(0) };
    std::thread::sleep(Duration::from_millis(200));
    backend.port().freeze(&id).unwrap();
    backend.port().freeze(&id).unwrap();
    assert!(backend.port().list().unwrap()[0].frozen);
    let used = || backend.port().usage(&id).unwrap().cpu_ns;
    let before = used();
    std::thread::sleep(Duration::from_millis(300));
    assert!(used() - before < 5_000_000, "it used {} ns while frozen", used() - before);
    backend.port().thaw(&id).unwrap();
    backend.port().thaw(&id).unwrap();
    let (first, _) = (count(), std::thread::sleep(Duration::from_millis(300)));
    let deadline = Instant::now() + Duration::from_secs(60);
    while count() <= first {
        assert!(Instant::now() < deadline, "it does not go on");
    }
    backend.destroy(&id);
}

#[test]
fn usage_figures_are_plausible() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox_with(|spec| spec.limits.memory = ByteSize::mib(256));
    let idle = backend.port().usage(&id).unwrap();
    assert!(idle.pids >= 1 && idle.pids < 10 && idle.memory_bytes < 32 << 20, "{idle:?}");
    backend.spawn(&id, probe("import time\nkept = bytearray(100 << 20)\nopen('/tmp/up', 'wb').write(bytes(10 << 20))\ntime.sleep(1000)"));
    let mut busy = idle;
    eventually(Duration::from_secs(60), "its memory and its file are counted", || {
        busy = backend.port().usage(&id).unwrap();
        busy.memory_bytes >= 90 << 20 && busy.disk_bytes >= 10 << 20
    });
    assert!(busy.memory_bytes <= 256 << 20, "{busy:?}");
    assert!(busy.memory_peak_bytes >= busy.memory_bytes && busy.memory_peak_bytes <= 256 << 20, "{busy:?}");
    assert!(busy.cpu_ns > idle.cpu_ns && busy.cpu_ns < 60_000_000_000, "{busy:?}");
    assert!(busy.inodes > 0, "{busy:?}");
    assert_eq!(busy.oom_kills, 0);
    backend.destroy(&id);
}

#[test]
fn what_a_failed_create_made_is_gone() {
    let env = TestEnv::new();
    let backend = env.backend();
    let mut spec = SandboxSpec::new(TemplateName::host());
    let mount = |target: &str| warren_core::Mount {
        source: "/etc".into(),
        target: target.into(),
        access: warren_core::MountAccess::ReadOnly,
    };
    // The mount point is below a file, so the agent fails half way through its boot.
    spec.mounts = vec![mount("/etc/passwd/below")];
    let error = backend.port().create(backend.request(spec, OwnerBond::Outlives)).unwrap_err();
    assert_eq!(error.kind, IsolationErrorKind::Layer);
    let mut spec = SandboxSpec::new(TemplateName::host());
    spec.mounts = vec![warren_core::Mount { source: "/no/such".into(), ..mount("/x") }];
    let error = backend.port().create(backend.request(spec, OwnerBond::Outlives)).unwrap_err();
    assert_eq!(error.kind, IsolationErrorKind::Invalid);
    assert!(backend.port().settle(Duration::from_secs(60)));
    assert!(env.census().is_empty(), "{:?}", env.census());
}

/// As when one moves to another backend and soon comes back.
#[test]
fn a_sandbox_made_under_an_id_again_is_not_ended_with_the_first() {
    let env = TestEnv::new();
    let backend = env.backend();
    let spec = SandboxSpec::new(TemplateName::host());
    let request = backend.request(spec, OwnerBond::DiesWithOwner);
    for life in 0..5 {
        let id = backend.port().create(request.clone()).unwrap().id;
        assert!(backend.port().settle(Duration::from_secs(60)));
        assert_eq!(backend.exec(&id, ["echo", "lives"]).line(), "lives", "life {life}");
        backend.port().destroy(&id).unwrap();
    }
    assert!(backend.port().settle(Duration::from_secs(60)));
    assert!(env.census().is_empty(), "{:?}", env.census());
}

#[test]
fn what_cannot_be_put_away_is_not_taken_for_gone() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox();
    assert!(backend.port().settle(Duration::from_secs(60)), "nobody looks for orphans meanwhile");
    let in_the_way = env.data_dir().join("trash").join(id.as_str()).join("something");
    std::fs::create_dir_all(&in_the_way).unwrap();
    let error = backend.port().destroy(&id).unwrap_err();
    assert_eq!(error.kind, IsolationErrorKind::Host);
    assert!(error.to_string().contains(&format!("put {id} away")), "{error}");
    let listed = backend.port().list().unwrap();
    assert!(listed.iter().any(|found| found.id == id), "its files are still here");
    std::fs::remove_dir_all(in_the_way.parent().unwrap()).unwrap();
    backend.destroy(&id);
}

#[test]
fn another_process_s_sandbox_cannot_be_destroyed() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox();
    env.remove(id.as_str()).ended(125).says("belongs to another process");
    env.run(["true"]).ok();
    assert_eq!(backend.exec(&id, ["echo", "unharmed"]).line(), "unharmed");
    assert!(!processes_of(id.as_str()).is_empty());
    backend.destroy(&id);
}
