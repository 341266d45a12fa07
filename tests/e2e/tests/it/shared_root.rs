//! Hosts whose mounts are shared, as systemd shares them: what is attached to one appears in every
//! mount table that has it. Nothing of a sandbox may appear there, and nothing that appears there
//! may reach a sandbox.

use std::fs;
use std::path::Path;

use warren_e2e::{Disk, SharedHost, TestEnv, TestServer};

/// Everything that mounts something, on a server and without one.
#[track_caller]
fn assert_all_works(env: &TestEnv, host: &SharedHost, data_dir: &Path) {
    let before = host.mounts();
    let mut server = TestServer::setup(env).on(host).data_dir(data_dir).start();
    assert!(!host.is_shared_by(server.pid()), "the server mounts in the host's own table");
    let id = server.create();
    assert_eq!(
        server.shell(&id, "echo one > file; grep -cE 'shared:|master:' /proc/self/mountinfo || true"),
        "0"
    );
    assert_eq!(server.shell(&id, "echo two > file; cat file"), "two");
    server.warren(["undo", &id]).ok();
    assert_eq!(server.shell(&id, "cat file"), "one");
    server.warren(["snapshot", &id]).ok();
    let fork = server.warren(["fork", &id]).ok().line();
    assert_eq!(server.shell(&fork, "cat file; echo three > file"), "one");
    assert_eq!(host.mounts_since(&before), [""; 0], "what sandboxes mount while they run");
    server.warren(["stop", &id]).ok();
    server.warren(["resume", &id]).ok();
    assert_eq!(server.shell(&id, "cat file; echo four > file"), "one");
    server.kill();
    server.start_again();
    assert_eq!(server.shell(&id, "cat file"), "four");
    assert_eq!(server.shell(&fork, "cat file"), "three");
    assert_eq!(host.mounts_since(&before), [""; 0], "what a server that was killed leaves mounted");
    let mut run = env.command_on(data_dir, ["run", "--disk", "64m", "--", "echo", "alone"]);
    run = host.inside(&run);
    let output = run.output().expect("warren can be started");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "alone\n", "{output:?}");
    server.finish();
    assert_eq!(host.mounts_since(&before), [""; 0], "what is left in the end");
}

#[test]
fn everything_works_where_all_mounts_are_shared() {
    let env = TestEnv::new();
    let host = SharedHost::new();
    assert_all_works(&env, &host, &env.data_dir());
}

/// The data directory's disk has a group of its own, and nothing else is shared.
#[test]
fn everything_works_on_a_volume_that_is_shared() {
    let env = TestEnv::new();
    let disk = Disk::make(&env, 4000);
    let host = SharedHost::below(disk.mount());
    assert_all_works(&env, &host, &disk.mount().join("data"));
}

#[test]
fn a_server_sees_what_the_host_mounts_later() {
    let env = TestEnv::new();
    let host = SharedHost::new();
    let volume = env.path("volume");
    fs::create_dir(&volume).unwrap();
    let server =
        TestServer::setup(&env).on(&host).flag("--allow-mount").flag(volume.to_str().unwrap()).start();
    host.shell(&format!("mount -t tmpfs tmpfs {0}; echo late > {0}/file; chmod 755 {0}", volume.display()));
    let id = server.warren(["create", "--mount", &format!("{}:/work", volume.display())]).ok().line();
    assert_eq!(server.shell(&id, "cat /work/file"), "late");
    server.finish();
}

/// Read-only is all that is below a source, and what the host mounts there is the host's alone:
/// before the sandbox is made, and after.
#[test]
fn what_is_mounted_below_the_source_of_a_mount_never_reaches_a_sandbox() {
    let env = TestEnv::new();
    let host = SharedHost::new();
    let source = env.path("source");
    for name in ["before", "after", "plain"] {
        fs::create_dir_all(source.join(name)).unwrap();
    }
    let cover = |name: &str| {
        let place = source.join(name).display().to_string();
        host.shell(&format!("mount -t tmpfs tmpfs {place}; chmod 777 {place}; echo secret > {place}/file"));
    };
    cover("before");
    let server =
        TestServer::setup(&env).on(&host).flag("--allow-mount").flag(source.to_str().unwrap()).start();
    for (access, flags) in [(":ro", "ro,nosuid,nodev"), ("", "rw,nosuid,nodev")] {
        let mount = format!("{}:/work{access}", source.display());
        let id = server.warren(["create", "--user", "root", "--mount", &mount]).ok().line();
        cover("after");
        // The table of a sandbox that is sealed is built anew.
        server.shell(&id, "echo changed > /root/file");
        server.warren(["snapshot", &id]).ok();
        assert_eq!(
            server.shell(&id, "ls /work/before /work/after /work/plain"),
            "/work/after:\n\n/work/before:\n\n/work/plain:"
        );
        let table = server.shell(&id, "awk '$5 ~ \"^/work\"' /proc/self/mountinfo");
        let fields: Vec<&str> = table.split(' ').collect();
        assert_eq!(table.lines().count(), 1, "{table}");
        assert!(fields[5].starts_with(flags) && fields[5].contains("idmapped"), "{table}");
        assert_eq!(fields[6], "-", "it has no others that it hears from: {table}");
        if access == ":ro" {
            let tries = "for place in /work /work/before /work/after; do touch $place/new 2>/dev/null && echo $place; done; true";
            assert_eq!(server.shell(&id, tries), "", "places that can be written to");
        }
        host.shell(&format!("umount {}", source.join("after").display()));
    }
    host.shell(&format!("umount {}", source.join("before").display()));
    server.finish();
}
