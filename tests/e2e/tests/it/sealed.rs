//! Files that a sandbox wrote become a layer: in place, while it runs, without a byte being copied.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use warren_core::{
    ByteSize, CreateRequest, Found, Mount, MountAccess, OwnerBond, Root, RootState, SandboxId, SandboxSpec,
    Sealed, TemplateName,
};
use warren_e2e::{Backend, TestEnv, causes};
use warren_isolate::CrashPoint;

fn root_spec() -> SandboxSpec {
    SandboxSpec { user: Some("root".to_owned()), ..SandboxSpec::new(TemplateName::host()) }
}

fn found(backend: &Backend<'_>, id: &SandboxId) -> Found {
    backend
        .port()
        .list()
        .expect("sandboxes are listed")
        .into_iter()
        .find(|found| found.id == *id)
        .expect("it is listed")
}

fn layer(env: &TestEnv, name: &str) -> PathBuf {
    let layers = env.data_dir().join("layers");
    std::fs::create_dir_all(&layers).expect("there is room for layers");
    layers.join(name)
}

#[track_caller]
fn seal(backend: &Backend<'_>, id: &SandboxId, into: &Path) -> Sealed {
    let below = found(backend, id).root;
    backend.layered().seal(id, into, below.trees()).unwrap_or_else(|error| panic!("{}", causes(&error)))
}

#[track_caller]
fn assert_sealed(backend: &Backend<'_>, id: &SandboxId, into: &Path) {
    let sealed = seal(backend, id, into);
    assert!(matches!(sealed, Sealed::Done { .. }), "{sealed:?}");
}

#[track_caller]
fn shell(backend: &Backend<'_>, id: &SandboxId, script: &str) -> String {
    backend.exec(id, ["sh", "-ec", script]).line()
}

/// Everything in a sandbox that a stack of layers has to keep.
const MANIFEST: &str = "cd /root; find . /usr/local/made -printf '%p %y %m %U %G %s %T@ %l\\n' 2>/dev/null | sort; \
                        find . -type f | sort | xargs -r sha256sum";

fn fork(backend: &Backend<'_>, root: Root) -> SandboxId {
    let request = CreateRequest { root, ..backend.request(root_spec(), OwnerBond::Outlives) };
    backend.port().create(request).unwrap_or_else(|error| panic!("{}", causes(&error))).id
}

#[test]
fn what_was_written_stays_and_what_is_written_then_goes_elsewhere() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.create(root_spec(), OwnerBond::Outlives);
    shell(&backend, &id, "echo one > /root/file; mkdir /usr/local/made; echo memory > /run/kept");
    let before = shell(&backend, &id, MANIFEST);
    let pid = found(&backend, &id).pid;
    let first = layer(&env, "first");
    assert_sealed(&backend, &id, &first);
    assert_eq!(shell(&backend, &id, MANIFEST), before);
    assert_eq!(found(&backend, &id).pid, pid, "the same agent answers");
    assert_eq!(shell(&backend, &id, "cat /run/kept; mount | grep -c ' / '"), "memory\n1");
    assert_eq!(std::fs::read_to_string(first.join("upper-0/root/file")).unwrap(), "one\n");
    shell(
        &backend,
        &id,
        "echo two >> /root/file; chmod 600 /root/file; rm -r /usr/local/made; echo x > /root/new",
    );
    assert_eq!(std::fs::read_to_string(first.join("upper-0/root/file")).unwrap(), "one\n");
    assert!(first.join("upper-1/local/made").is_dir() && !first.join("upper-0/root/new").exists());
    let second = layer(&env, "second");
    assert_sealed(&backend, &id, &second);
    assert_eq!(
        shell(&backend, &id, "cat /root/file; ls /usr/local"),
        shell(&backend, &id, "printf 'one\\ntwo\\n'; ls /usr/local")
    );
    assert_eq!(seal(&backend, &id, &layer(&env, "third")), Sealed::Unchanged);
    assert!(!layer(&env, "third").exists());
    let tops: Vec<_> = found(&backend, &id).root.trees().iter().map(|tree| tree.lowers[0].clone()).collect();
    assert_eq!(tops, [second.join("upper-0"), second.join("upper-1")]);
    backend.destroy(&id);
}

#[test]
fn forks_share_everything_until_they_write() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.create(root_spec(), OwnerBond::Outlives);
    shell(
        &backend,
        &id,
        "cd /root; seq 1000 > file; ln file link; ln -s file soft; mkfifo pipe; truncate -s 10M holes; mkdir -p a/b; chmod 700 /root",
    );
    assert_sealed(&backend, &id, &layer(&env, "base"));
    let root = found(&backend, &id).root;
    let forks: Vec<SandboxId> = (0..3).map(|_| fork(&backend, root.clone())).collect();
    let before = shell(&backend, &id, MANIFEST);
    for (number, fork) in forks.iter().enumerate() {
        assert_eq!(shell(&backend, fork, MANIFEST), before);
        shell(
            &backend,
            fork,
            &format!(
                "cd /root; printf {number} | dd of=file conv=notrunc status=none; chmod 0{number}00 soft; chown 7 link"
            ),
        );
    }
    assert_eq!(shell(&backend, &id, MANIFEST), before, "the original sees nothing of it");
    for (number, fork) in forks.iter().enumerate() {
        assert_eq!(shell(&backend, fork, "head -c1 /root/file"), number.to_string());
        backend.destroy(fork);
    }
    backend.destroy(&id);
}

#[test]
fn directories_of_earlier_layers_are_renamed_like_any_other() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.create(root_spec(), OwnerBond::Outlives);
    shell(&backend, &id, "mkdir -p /root/src/lib; echo 1 > /root/src/lib/a; echo 2 > /root/src/b");
    assert_sealed(&backend, &id, &layer(&env, "one"));
    let rename = "python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[2])'";
    shell(&backend, &id, &format!("{rename} /root/src /root/code; {rename} /root/code/lib /srv/lib"));
    assert_sealed(&backend, &id, &layer(&env, "two"));
    shell(&backend, &id, &format!("{rename} /root/code /root/src; echo 3 >> /srv/lib/a"));
    assert_sealed(&backend, &id, &layer(&env, "three"));
    let fork = fork(&backend, found(&backend, &id).root);
    for id in [&id, &fork] {
        assert_eq!(
            shell(&backend, id, "cd /root; find src; cat src/b /srv/lib/a; ls"),
            "src\nsrc/b\n2\n1\n3\nsrc"
        );
    }
    backend.destroy(&fork);
    backend.destroy(&id);
}

#[test]
fn a_sandbox_in_which_somebody_works_is_left_alone() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.create(root_spec(), OwnerBond::Outlives);
    shell(&backend, &id, "echo one > /root/file");
    backend.spawn(&id, ["sleep", "1000"]);
    let into = layer(&env, "busy");
    let sealed = seal(&backend, &id, &into);
    assert!(matches!(&sealed, Sealed::Busy { reason } if reason == "a process runs in it"), "{sealed:?}");
    assert!(!into.exists() && !found(&backend, &id).frozen);
    shell(&backend, &id, "pkill sleep; echo two > /root/file");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !matches!(seal(&backend, &id, &into), Sealed::Done { .. }) {
        assert!(Instant::now() < deadline, "it is idle now");
    }
    backend.destroy(&id);
}

#[test]
fn mounts_of_all_kinds_stay_where_they_are() {
    let env = TestEnv::new();
    let backend = env.backend();
    let shared = tempfile::tempdir().unwrap();
    let (source, access) = (shared.path().canonicalize().unwrap(), MountAccess::ReadWrite);
    let targets = ["/mnt/with space", "/usr/local/shared", "/srv/deep/er"];
    let mounts =
        targets.map(|target| Mount { source: source.clone(), target: target.into(), access }).to_vec();
    let id = backend.create(SandboxSpec { mounts, ..root_spec() }, OwnerBond::Outlives);
    shell(
        &backend,
        &id,
        "echo x > '/mnt/with space/x'; echo y > /root/y; mv /srv/deep /srv/moved; echo z > /usr/local/z",
    );
    let table = shell(&backend, &id, "awk '{print $5}' /proc/self/mountinfo | sort");
    assert_sealed(&backend, &id, &layer(&env, "one"));
    assert_eq!(shell(&backend, &id, "awk '{print $5}' /proc/self/mountinfo | sort"), table);
    assert_eq!(
        shell(
            &backend,
            &id,
            "cat /usr/local/shared/x /srv/moved/er/x /root/y /usr/local/z; nproc > /dev/null; ls /dev/shm /sys"
        ),
        shell(&backend, &id, "printf 'x\\nx\\ny\\nz\\n'; ls /dev/shm /sys")
    );
    let layers = shell(&backend, &id, "cat /proc/self/mountinfo");
    assert!(!layers.contains(env.data_dir().to_str().unwrap()), "{layers}");
    backend.destroy(&id);
}

#[test]
fn a_frozen_and_a_halted_sandbox_are_sealed_and_stay_so() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.create(root_spec(), OwnerBond::Outlives);
    shell(&backend, &id, "echo one > /root/file");
    backend.port().freeze(&id).unwrap();
    assert_eq!(seal(&backend, &id, &layer(&env, "frozen")), Sealed::Done { frozen: Duration::ZERO });
    assert!(found(&backend, &id).frozen);
    backend.port().thaw(&id).unwrap();
    shell(&backend, &id, "cat /root/file; echo two > /root/file");
    backend.spawn(&id, ["sleep", "1000"]);
    backend.port().halt(&id).unwrap();
    assert_eq!(seal(&backend, &id, &layer(&env, "halted")), Sealed::Done { frozen: Duration::ZERO });
    assert_eq!(seal(&backend, &id, &layer(&env, "again")), Sealed::Unchanged);
    // Going back is to start on fewer layers.
    let mut root = found(&backend, &id).root;
    root.trees_mut()[0].lowers.remove(0);
    let request = backend.request(root_spec(), OwnerBond::Outlives);
    backend.port().create(CreateRequest { id: id.clone(), root, state: RootState::Kept, ..request }).unwrap();
    assert_eq!(shell(&backend, &id, "cat /root/file"), "one");
    backend.destroy(&id);
}

#[test]
fn a_sized_disk_is_not_moved_but_can_be_seen_and_cleared() {
    let env = TestEnv::new();
    let backend = env.backend();
    let mut spec = root_spec();
    spec.limits.disk = ByteSize::mib(64);
    let request = CreateRequest { disk_limit_required: true, ..backend.request(spec, OwnerBond::Outlives) };
    let id = backend.port().create(request).unwrap().id;
    shell(&backend, &id, "echo one > /root/file; sync");
    assert_eq!(seal(&backend, &id, &layer(&env, "image")), Sealed::Unmovable);
    let read = || {
        use std::os::fd::AsRawFd;
        let view = backend.layered().writable(&id).unwrap();
        std::fs::read_to_string(format!("/proc/self/fd/{}/upper-0/root/file", view.as_raw_fd()))
    };
    backend.port().freeze(&id).unwrap();
    assert_eq!(read().unwrap(), "one\n");
    backend.port().thaw(&id).unwrap();
    assert!(backend.layered().clear(&id).is_err(), "it runs");
    backend.port().halt(&id).unwrap();
    assert_eq!(read().unwrap(), "one\n");
    backend.layered().clear(&id).unwrap();
    assert!(read().is_err());
    backend.destroy(&id);
}

#[test]
fn what_was_sealed_still_counts_as_held() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.create(root_spec(), OwnerBond::Outlives);
    shell(&backend, &id, "head -c 20M /dev/zero > /root/file");
    assert_sealed(&backend, &id, &layer(&env, "large"));
    let usage = backend.port().usage(&id).unwrap();
    assert!(usage.disk_bytes >= 20 << 20 && usage.inodes >= 3, "{usage:?}");
    backend.destroy(&id);
}

#[test]
fn a_stack_of_two_hundred_layers_works() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.create(root_spec(), OwnerBond::Outlives);
    for number in 0..200 {
        shell(&backend, &id, &format!("echo {number} > /root/file; echo {number} > /root/file-{number}"));
        assert_sealed(&backend, &id, &layer(&env, &number.to_string()));
    }
    assert_eq!(shell(&backend, &id, "cat /root/file; ls /root | wc -l"), "199\n201");
    let fork = fork(&backend, found(&backend, &id).root);
    assert_eq!(shell(&backend, &fork, "cat /root/file; cat /root/file-0"), "199\n0");
    backend.destroy(&fork);
    backend.destroy(&id);
}

/// A new step is a new point in the list, so a step without this test cannot be.
#[test]
fn a_crash_at_any_step_leaves_a_sandbox_that_works_sealed_or_not() {
    for point in CrashPoint::ALL.into_iter().filter(|point| point.name().starts_with("seal.")) {
        for running in [true, false] {
            let at_rest =
                ["seal.intent", "seal.prepared", "seal.staged", "seal.placing"].contains(&point.name());
            if running || at_rest {
                crash_while_sealing(point, running);
            }
        }
    }
}

/// Seals in a process that is killed there.
#[track_caller]
fn crash(env: &TestEnv, id: &SandboxId, when: &str) {
    let mut life = Command::new(env!("CARGO_BIN_EXE_life"));
    let status =
        life.arg(env.data_dir()).args([when, "seal", id.as_str()]).status().expect("the step is taken");
    assert_eq!(status.signal(), Some(9), "{when}");
}

/// A program that lists the mounts, as a sandbox sees them.
const MOUNTS: &str =
    "cut -d' ' -f5,6 /proc/self/mountinfo | sort; ls /proc/self/ns /dev/shm /volume /usr/volume";

fn crash_while_sealing(point: CrashPoint, running: bool) {
    let env = TestEnv::new();
    let when = point.name();
    let volume = tempfile::tempdir().expect("a directory for the test can be made");
    let (source, access) = (volume.path().canonicalize().expect("it has a path"), MountAccess::ReadWrite);
    let targets = ["/volume", "/usr/volume"];
    let mounts =
        targets.map(|target| Mount { source: source.clone(), target: target.into(), access }).to_vec();
    let spec = SandboxSpec { mounts, ..root_spec() };
    let (id, table) = {
        let backend = env.backend();
        let id = backend.create(spec.clone(), OwnerBond::Outlives);
        shell(&backend, &id, "echo one > /root/file; mkdir /usr/local/made; echo x > /volume/x");
        let table = shell(&backend, &id, MOUNTS);
        if !running {
            backend.port().halt(&id).expect("it is halted");
        }
        (id, table)
    };
    crash(&env, &id, when);
    let backend = env.backend();
    let found = found(&backend, &id);
    assert_eq!((found.alive, found.frozen), (running, false), "{when}");
    let sealed = found.root.trees()[0].lowers.len() > 1;
    let late = ["seal.pivoted", "seal.exchanged", "seal.placing", "seal.recorded"].contains(&when);
    assert_eq!(
        sealed,
        late || !running && when == "seal.prepared" && env.data_dir().join("sealed").exists(),
        "{when}"
    );
    assert_eq!(env.data_dir().join("sealed/upper-0/root/file").exists(), sealed, "{when}");
    if !running {
        let request = backend.request(spec, OwnerBond::Outlives);
        let request = CreateRequest { id: id.clone(), root: found.root, state: RootState::Kept, ..request };
        backend.port().create(request).expect("it starts again");
    }
    assert_eq!(shell(&backend, &id, MOUNTS), table, "{when}");
    assert_eq!(
        shell(&backend, &id, "cat /root/file; ls -d /usr/local/made; echo two > /root/file; cat /root/file"),
        "one\n/usr/local/made\ntwo"
    );
    let next = layer(&env, "next");
    assert_sealed(&backend, &id, &next);
    assert_eq!(shell(&backend, &id, "cat /root/file"), "two");
    assert_eq!(shell(&backend, &id, MOUNTS), table, "{when}");
    backend.destroy(&id);
}

/// One crash after another: the next process repairs what the last one left, seals again and is
/// killed as well.
#[test]
fn crashes_in_a_row_leave_one_root() {
    let env = TestEnv::new();
    let id = env.backend().create(root_spec(), OwnerBond::Outlives);
    let table =
        shell(&env.backend(), &id, "echo one > /root/file; cut -d' ' -f5 /proc/self/mountinfo | sort");
    for when in ["seal.moving", "seal.attached", "seal.moved", "seal.moving", "seal.pivoted"] {
        crash(&env, &id, when);
    }
    let backend = env.backend();
    assert_eq!(found(&backend, &id).root.trees()[0].lowers[0], env.data_dir().join("sealed/upper-0"));
    assert_eq!(shell(&backend, &id, "cut -d' ' -f5 /proc/self/mountinfo | sort"), table);
    backend.destroy(&id);
}

/// Where the layer was to go is no place for it any more: the sandbox goes on, and the caller is
/// told, until it can be done.
#[test]
fn a_seal_that_cannot_be_finished_leaves_nobody_standing_still_and_loses_nothing() {
    for ends_before in [false, true] {
        let env = TestEnv::new();
        let id = env.backend().create(root_spec(), OwnerBond::Outlives);
        shell(&env.backend(), &id, "echo one > /root/file");
        crash(&env, &id, "seal.exchanged");
        let into = env.data_dir().join("sealed");
        let on_it = |word: &str| {
            let mut command = Command::new("sh");
            assert!(command.args(["-c", word]).arg(&into).status().unwrap().success(), "{word}");
        };
        on_it("mount -t tmpfs tmpfs \"$0\"");
        let backend = env.backend();
        let id = &id;
        assert!(!found(&backend, id).frozen, "it stands still");
        assert_eq!(
            shell(&backend, id, "cat /root/file; echo two > /root/second; cat /root/second"),
            "one\ntwo"
        );
        let below = found(&backend, id).root;
        let error = backend
            .layered()
            .seal(id, &layer(&env, "other"), below.trees())
            .expect_err("it cannot be finished");
        assert!(causes(&error).contains("cross-device"), "{}", causes(&error));
        assert!(!found(&backend, id).frozen, "it stands still");
        if ends_before {
            backend.port().halt(id).expect("it ends");
        }
        on_it("umount \"$0\"");
        let found = found(&backend, id);
        assert_eq!(found.root.trees()[0].lowers[0], into.join("upper-0"), "it is finished");
        if ends_before {
            let request = backend.request(root_spec(), OwnerBond::Outlives);
            let request =
                CreateRequest { id: id.clone(), root: found.root, state: RootState::Kept, ..request };
            backend.port().create(request).expect("it starts again");
        }
        assert_eq!(shell(&backend, id, "cat /root/file /root/second"), "one\ntwo");
        assert_sealed(&backend, id, &layer(&env, "next"));
        assert_eq!(shell(&backend, id, "cat /root/file /root/second"), "one\ntwo");
        backend.destroy(id);
    }
}
