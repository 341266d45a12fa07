//! Snapshots of sandboxes on images: copies of what they wrote, which stand on the image alone.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use warren_core::{CreateRequest, OwnerBond, RootState, SandboxId, Sealed};
use warren_e2e::{DockerEngine, TestEnv, TestServer};
use warren_testkit::conformance::{Deed, Rig as _};

use super::rig::DockerRig;

const PATIENCE: Duration = Duration::from_secs(60);

/// The steps of emptying what a sandbox wrote.
pub(super) const STEPS: [&str; 1] = ["docker.cleared"];

fn serve<'env>(env: &'env TestEnv, engine: &DockerEngine) -> TestServer<'env> {
    let setup = TestServer::setup(env).set("backends.enabled", "[docker]");
    setup.set("backends.docker_socket", &engine.socket().to_string_lossy()).start()
}

fn create(server: &TestServer<'_>) -> String {
    server
        .warren(["create", "--image", DockerEngine::IMAGE, "--user", "root", "--workdir", "/root"])
        .ok()
        .line()
}

/// A file that was removed since a start on layers leaves no trace where it was: a copy of that
/// must not bring it back.
#[test]
fn what_was_removed_after_a_start_on_layers_stays_removed() {
    let (env, engine) = (TestEnv::new(), DockerEngine::new());
    let server = serve(&env, &engine);
    let id = create(&server);
    let look = |id: &str| server.shell(id, "cd /root && ls -A && cat * 2>/dev/null; true");
    server.shell(&id, "mkdir dir; echo deep > dir/deep; echo one > one; echo two > two; rm -f /bin/nproc");
    let fork = server.warren(["fork", &id]).ok().line();
    assert_eq!(look(&fork), "dir\none\ntwo\none\ntwo");
    server.shell(&fork, "rm -r dir one; echo more >> two; echo three > three");
    let again = server.warren(["fork", &fork]).ok().line();
    assert_eq!(look(&again), "three\ntwo\nthree\ntwo\nmore");
    assert_eq!(server.shell(&again, "test -e /bin/nproc || echo gone"), "gone");
    server.shell(&again, "rm two three; echo last > last");
    server.warren(["snapshot", &again, "--name", "last"]).ok();
    server.shell(&again, "rm last");
    server.warren(["rollback", &again, "last"]).ok();
    assert_eq!(look(&again), "last\nlast");
    assert_eq!(look(&id), "dir\none\ntwo\none\ntwo", "the first is as it was");
    let differs = server.warren(["diff", &id, &again]).ok().text();
    assert!(!differs.contains("warren") && !differs.contains("/etc/"), "nothing of ours is told: {differs}");
    server.warren(["rm", &id, &fork, &again]).ok();
    server.finish();
}

#[test]
fn all_ways_through_time_lead_over_a_docker_engine() {
    let (env, engine) = (TestEnv::new(), DockerEngine::new());
    let server = serve(&env, &engine);
    let id = create(&server);
    server.shell(&id, "echo one > file");
    server.shell(&id, "echo two > file; echo new > new");
    let log = server.warren(["log", &id, "--json"]).ok().json();
    let first =
        log.as_array().unwrap().iter().find(|entry| {
            entry["command"].as_str().is_some_and(|command| command.contains("echo one > file"))
        });
    let first = first.expect("it is told")["number"].to_string();
    assert!(server.warren(["blame", &id, "/root/file"]).ok().text().contains("echo two > file"));
    server.warren(["undo", &id]).ok();
    // To look is no change: what was undone can still be done again.
    assert_eq!(server.shell(&id, "cat file; ls"), "one\nfile");
    server.warren(["redo", &id]).ok();
    assert_eq!(server.shell(&id, "cat file new"), "two\nnew");
    server.warren(["goto", &id, &first]).ok();
    assert_eq!(server.shell(&id, "cat file; ls"), "one\nfile");
    server.warren(["undo", &id]).ok();
    assert_eq!(server.shell(&id, "cat file new"), "two\nnew");

    server.warren(["try", &id, "--", "sh", "-c", "echo tried > /root/tried"]).ok();
    assert_eq!(server.shell(&id, "cat tried file"), "tried\ntwo");
    server.warren(["try", &id, "--", "sh", "-c", "rm /root/tried; exit 3"]).ended(3);
    assert_eq!(server.shell(&id, "cat tried"), "tried");

    let fork = server.warren(["fork", &id]).ok().line();
    server.shell(&fork, "echo forked > forked; rm new");
    server.shell(&id, "echo mine > mine");
    server.warren(["promote", &fork, "--apply"]).ok();
    assert_eq!(server.shell(&id, "cat forked mine; ls"), "forked\nmine\nfile\nforked\nmine\ntried");
    let tar = env.path("state.tar");
    server.warren(["export", &id, "--output", &tar.to_string_lossy()]).ok();
    let listed = std::process::Command::new("tar").arg("--list").arg("--file").arg(&tar).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("root/forked") && listed.contains("usr/bin/bash"), "{listed}");
    server.warren(["stop", &id]).ok();
    server.warren(["resume", &id]).ok();
    assert_eq!(server.shell(&id, "cat forked mine"), "forked\nmine");
    server.assert_agreement();
    server.warren(["rm", &id, &fork]).ok();
    server.finish();
}

#[test]
fn a_sandbox_that_wrote_nothing_is_not_copied() {
    let engine = DockerEngine::new();
    let rig = DockerRig::new(&engine);
    let request = made(&rig);
    let layered = rig.backend().layered().expect("the engine shows what was written");
    let seal = || layered.seal(&request.id, &rig.place(), request.root.trees()).unwrap();
    assert!(layered.holds_layers());
    assert_eq!(seal(), Sealed::Unchanged);
    rig.backend().halt(&request.id).unwrap();
    assert_eq!(seal(), Sealed::Unchanged);
    let again = CreateRequest { state: RootState::Kept, ..request.clone() };
    rig.backend().create(again).unwrap();
    assert_eq!(seal(), Sealed::Unchanged, "a start writes nothing");
    rig.backend().destroy(&request.id).unwrap();
    assert!(rig.backend().settle(PATIENCE));
}

#[test]
fn a_kill_while_one_is_cleared_leaves_it_to_be_cleared() {
    let engine = DockerEngine::new();
    let mut rig = DockerRig::new(&engine);
    let request = made(&rig);
    rig.backend().halt(&request.id).unwrap();
    rig.clear_and_die(&request.id, STEPS[0]);
    assert!(rig.backend().settle(PATIENCE));
    let again = CreateRequest { state: RootState::Kept, ..request.clone() };
    rig.backend().create(again).unwrap();
    let layered = rig.backend().layered().unwrap();
    assert_eq!(layered.seal(&request.id, &rig.place(), &[]).unwrap(), Sealed::Unchanged);
    rig.backend().destroy(&request.id).unwrap();
    assert!(rig.backend().settle(PATIENCE));
}

fn made(rig: &DockerRig<'_>) -> CreateRequest {
    let template = warren_core::TemplateName::host();
    let spec =
        warren_core::SandboxSpec { user: Some("root".to_owned()), ..warren_core::SandboxSpec::new(template) };
    let request = rig.request(spec, OwnerBond::Outlives);
    rig.backend().create(request.clone()).expect("it is made");
    request
}

impl DockerRig<'_> {
    fn clear_and_die(&mut self, id: &SandboxId, step: &str) {
        let output = self.in_another_process(step, "clear", id);
        assert_eq!(output.status.signal(), Some(9), "{step}: {output:?}");
        assert_eq!(self.steps(Deed::Seal), Vec::<String>::new(), "it only copies");
    }
}
