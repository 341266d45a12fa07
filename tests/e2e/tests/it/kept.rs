//! Sandboxes whose processes end and whose files stay: halting, and starting again from what is
//! left.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use warren_core::{
    ByteSize, CreateRequest, IsolationErrorKind, OwnerBond, RootState, SandboxId, SandboxSpec, TemplateName,
};
use warren_e2e::{Backend, TestEnv, causes, has_ended, probe, probe_file, processes_of};
use warren_isolate::CrashPoint;

fn root_spec() -> SandboxSpec {
    SandboxSpec { user: Some("root".to_owned()), ..SandboxSpec::new(TemplateName::host()) }
}

fn resume_request(backend: &Backend<'_>, id: &SandboxId, spec: SandboxSpec) -> CreateRequest {
    let request = backend.request(spec, OwnerBond::Outlives);
    CreateRequest { id: id.clone(), state: RootState::Kept, ..request }
}

#[track_caller]
fn resume(backend: &Backend<'_>, id: &SandboxId, spec: SandboxSpec) {
    let request = resume_request(backend, id, spec);
    let made = backend.port().create(request);
    assert_eq!(made.unwrap_or_else(|error| panic!("{}", causes(&error))).id, *id);
}

/// Nothing is left but one sandbox's files.
#[track_caller]
fn assert_only_files(env: &TestEnv, id: &SandboxId, when: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let left: Vec<String> =
            env.census().into_iter().filter(|line| *line != format!("  sandbox: {id}")).collect();
        if left.is_empty() {
            return;
        }
        // A loop device clears itself in its own time.
        assert!(Instant::now() < deadline, "{when}: {left:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn work_survives_a_halt_and_processes_do_not() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.create(root_spec(), OwnerBond::Outlives);
    assert_eq!(backend.exec(&id, probe_file!("leave_work.py")).line(), "ok");
    backend.spawn(&id, ["sh", "-c", "echo gone > /run/memory; sleep 1000"]);
    let watched = backend.port().watch(&id).unwrap();
    assert!(!has_ended(&watched, Duration::ZERO));
    for _ in 0..3 {
        backend.port().halt(&id).unwrap();
        assert!(processes_of(id.as_str()).is_empty());
        assert!(has_ended(&watched, Duration::ZERO));
        assert!(has_ended(&backend.port().watch(&id).unwrap(), Duration::ZERO));
        assert_only_files(&env, &id, "halted");
        let found = &backend.port().list().unwrap()[0];
        assert_eq!((&found.id, found.alive, found.pid), (&id, false, None));
        assert_eq!(backend.port().dial(&id).unwrap_err().kind, IsolationErrorKind::Ended);
        backend.port().halt(&id).unwrap();
        resume(&backend, &id, root_spec());
        assert_eq!(backend.exec(&id, probe_file!("find_work.py")).line(), "ok");
        assert_eq!(backend.exec(&id, ["sh", "-c", "ps ax | grep -c '[s]leep 1000'"]).exit.code, 1);
        assert!(backend.port().list().unwrap()[0].alive);
    }
    backend.destroy(&id);
    env.assert_clean();
}

#[test]
fn work_on_a_sized_disk_survives_and_the_size_still_holds() {
    let env = TestEnv::new();
    let backend = env.backend();
    let mut spec = root_spec();
    spec.limits.disk = ByteSize::mib(64);
    spec.limits.inodes = 5000;
    let request =
        CreateRequest { disk_limit_required: true, ..backend.request(spec.clone(), OwnerBond::Outlives) };
    let id = request.id.clone();
    backend.port().create(request).unwrap();
    assert_eq!(backend.exec(&id, probe_file!("leave_work.py")).line(), "ok");
    for _ in 0..3 {
        backend.port().halt(&id).unwrap();
        let request =
            CreateRequest { disk_limit_required: true, ..resume_request(&backend, &id, spec.clone()) };
        backend.port().create(request).unwrap_or_else(|error| panic!("{}", causes(&error)));
        assert_eq!(backend.exec(&id, probe_file!("find_work.py")).line(), "ok");
    }
    let words = [probe_file!("fill_disk.py"), vec!["/home/user".to_owned()]].concat();
    let output = backend.exec(&id, words).line();
    assert!(output.starts_with("ENOSPC "), "{output}");
    backend.port().halt(&id).unwrap();
    assert_only_files(&env, &id, "halted");
    let usage = backend.port().usage(&id).unwrap();
    assert!(usage.disk_bytes > 32 << 20 && usage.pids == 0 && usage.memory_bytes == 0, "{usage:?}");
    backend.destroy(&id);
}

#[test]
fn limits_hold_again_after_a_resume() {
    let env = TestEnv::new();
    let backend = env.backend();
    let mut spec = root_spec();
    spec.limits.memory = ByteSize::mib(64);
    spec.limits.pids = 50;
    let id = backend.create(spec.clone(), OwnerBond::Outlives);
    backend.port().halt(&id).unwrap();
    resume(&backend, &id, spec);
    let words = [probe_file!("memory_bombs.py"), vec!["anonymous".to_owned()]].concat();
    assert_eq!(backend.exec(&id, words).exit.code, 137);
    assert!(backend.port().usage(&id).unwrap().oom_kills > 0);
    let forks = "import time\nn = 0\nwhile True:\n  try:\n    if os.fork() == 0:\n      time.sleep(60); os._exit(0)\n    n += 1\n  \
                 except OSError: break\nprint(n)";
    let forks: u32 = backend.exec(&id, probe(forks)).line().parse().unwrap();
    assert!((20..50).contains(&forks), "{forks}");
    backend.destroy(&id);
}

#[test]
fn a_resume_that_fails_leaves_files_and_nothing_else() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.create(root_spec(), OwnerBond::Outlives);
    assert_eq!(backend.exec(&id, probe_file!("leave_work.py")).line(), "ok");
    backend.port().halt(&id).unwrap();
    let mount = |source: &str, target: &str| warren_core::Mount {
        source: source.into(),
        target: target.into(),
        access: warren_core::MountAccess::ReadOnly,
    };
    // One fails before anything runs, the other half way through the agent's boot.
    for mount in [mount("/no/such", "/x"), mount("/etc", "/etc/passwd/below")] {
        let spec = SandboxSpec { mounts: vec![mount], ..root_spec() };
        backend.port().create(resume_request(&backend, &id, spec)).unwrap_err();
        assert_only_files(&env, &id, "halted");
        assert!(!backend.port().list().unwrap()[0].alive);
    }
    resume(&backend, &id, root_spec());
    assert_eq!(backend.exec(&id, probe_file!("find_work.py")).line(), "ok");
    backend.destroy(&id);
}

/// A link that a sandbox left where the host writes files of its own leads nowhere.
#[test]
fn the_host_writes_nothing_into_kept_files() {
    let env = TestEnv::new();
    let backend = env.backend();
    let outside = env.path("outside");
    std::fs::create_dir(&outside).unwrap();
    let spec = SandboxSpec { hostname: Some("named".to_owned()), ..root_spec() };
    let id = backend.create(spec.clone(), OwnerBond::Outlives);
    assert_eq!(backend.exec(&id, ["cat", "/etc/hostname"]).line(), "named");
    let script = format!(
        "rm /etc/hosts && ln -s {0}/hosts /etc/hosts && echo mine > /etc/hostname",
        outside.display()
    );
    assert_eq!(backend.exec(&id, ["sh", "-c", &script]).exit.code, 0);
    backend.port().halt(&id).unwrap();
    resume(&backend, &id, spec);
    assert!(std::fs::read_dir(&outside).unwrap().next().is_none());
    assert_eq!(backend.exec(&id, ["cat", "/etc/hostname"]).line(), "mine");
    backend.destroy(&id);
}

#[test]
fn a_crash_at_any_step_of_a_halt_or_a_resume_loses_no_work() {
    let resumes = |point: &CrashPoint| {
        point.name().starts_with("resume.")
            || (point.name().starts_with("create.") && *point != CrashPoint::CreateDirectory)
    };
    let halts = CrashPoint::ALL.into_iter().filter(|point| point.name().starts_with("halt."));
    let steps = halts.map(|point| ("halt", point));
    let steps = steps.chain(CrashPoint::ALL.into_iter().filter(resumes).map(|point| ("resume", point)));
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.create(root_spec(), OwnerBond::Outlives);
    assert_eq!(backend.exec(&id, probe_file!("leave_work.py")).line(), "ok");
    for (action, point) in steps {
        if action == "resume" {
            backend.port().halt(&id).unwrap();
        }
        crash(&env, action, point, &id);
        // The next process to open the data directory puts right what was left.
        let next = env.backend();
        assert!(next.port().settle(Duration::from_secs(60)));
        let listed = next.port().list().unwrap();
        assert_eq!(listed.len(), 1, "{}", point.name());
        let complete = point == CrashPoint::CreateRecord;
        assert_eq!(listed[0].alive, complete, "{}", point.name());
        if action == "resume" && !complete {
            assert_only_files(&env, &id, point.name());
        }
        if !complete {
            resume(&next, &id, root_spec());
        }
        assert_eq!(next.exec(&id, probe_file!("find_work.py")).line(), "ok", "{}", point.name());
    }
    env.backend().destroy(&id);
    env.assert_clean();
}

fn crash(env: &TestEnv, action: &str, point: CrashPoint, id: &SandboxId) {
    let mut life = Command::new(env!("CARGO_BIN_EXE_life"));
    life.arg(env.data_dir()).args([point.name(), action, id.as_str()]);
    let output = life.output().expect("it can be started");
    assert_eq!(output.status.signal(), Some(9), "{} {action}: {output:?}", point.name());
}

#[test]
fn a_halted_sandbox_that_dies_with_its_maker_is_its_maker_s_alone() {
    let env = TestEnv::new();
    let id = {
        let backend = env.backend();
        let id = backend.create(root_spec(), OwnerBond::DiesWithOwner);
        backend.port().halt(&id).unwrap();
        env.remove(id.as_str()).ended(125).says("belongs to another process");
        assert_eq!(backend.port().list().unwrap().len(), 1);
        let request = resume_request(&backend, &id, root_spec());
        let request = CreateRequest { owner: OwnerBond::DiesWithOwner, ..request };
        backend.port().create(request).unwrap();
        backend.port().halt(&id).unwrap();
        id
    };
    let next = env.backend();
    assert!(next.port().settle(Duration::from_secs(60)));
    assert!(next.port().list().unwrap().is_empty(), "{id} is an orphan");
}

#[test]
fn a_record_that_cannot_be_read_is_no_reason_to_remove_files() {
    let env = TestEnv::new();
    let id = {
        let backend = env.backend();
        let id = backend.create(root_spec(), OwnerBond::Outlives);
        assert_eq!(backend.exec(&id, ["sh", "-c", "echo work > /root/file"]).exit.code, 0);
        backend.port().halt(&id).unwrap();
        id
    };
    let directory = env.data_dir().join("sandboxes").join(id.as_str());
    std::fs::write(directory.join("record.json"), "{\"format\": 1000}").unwrap();
    let backend = env.backend();
    assert!(backend.port().settle(Duration::from_secs(60)));
    assert_eq!(std::fs::read_to_string(directory.join("upper-0/root/file")).unwrap(), "work\n");
    assert_eq!(backend.port().halt(&id).unwrap_err().kind, IsolationErrorKind::NotFound);
    backend.destroy(&id);
    assert!(!directory.exists());
}
