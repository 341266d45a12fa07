//! The remains of a server that crashed at any step, and how its next start treats them.

use std::fs;
use std::time::Duration;

use warren_e2e::{Internet, TestEnv, TestServer, eventually};
use warren_engine::EngineStep;
use warren_isolate::CrashPoint;
use warren_wire::api::{CreateSandbox, Sandbox};
use warren_wire::client::{ClientError, SandboxQuery};

use crate::travel::is_of_history;

const SIGKILL: i32 = 9;
const PATIENCE: Duration = Duration::from_secs(60);

/// A client's request that takes the server past a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Create,
    Resume,
    Stop,
    Delete,
    /// Of a sandbox that was stopped before.
    DeleteStopped,
    Pause,
    Thaw,
}

/// Steps are known by what their names begin with, so a new one of a known kind is tried, and one
/// of a new kind fails here.
fn ask_for(step: &str) -> Ask {
    let kinds = [
        ("engine.create.", Ask::Create),
        ("engine.resume.", Ask::Resume),
        ("engine.stop.", Ask::Stop),
        ("engine.delete.", Ask::Delete),
        ("engine.files.", Ask::DeleteStopped),
        ("engine.pause.", Ask::Pause),
        ("engine.thaw.", Ask::Thaw),
        ("engine.network.attached", Ask::Create),
        ("engine.network.detached", Ask::Stop),
        ("create.", Ask::Create),
        ("resume.", Ask::Resume),
        ("halt.", Ask::Stop),
        ("destroy.", Ask::Delete),
        ("reap.", Ask::Delete),
    ];
    let kind = kinds.into_iter().find(|(begin, _)| step.starts_with(begin));
    kind.unwrap_or_else(|| panic!("no request is known that comes past `{step}`")).1
}

/// Sandboxes that have nothing to do with the crash. Nothing may happen to them.
struct Bystanders {
    running: String,
    stopped: String,
    /// Of the running one: nobody changes it.
    generation: u64,
}

impl Bystanders {
    fn make(server: &TestServer<'_>) -> Self {
        let (running, stopped) = (server.create(), server.create());
        server.shell(&running, "echo whole > file; nohup sleep 1000000 >/dev/null 2>&1 &");
        server.shell(&stopped, "echo whole > file");
        server.warren(["stop", &stopped]).ok();
        // What it did is captured before the next command begins, and that changes nothing.
        server.shell(&running, "true");
        let generation = server.client().sandbox(&running).expect("it is known").generation;
        Self { running, stopped, generation }
    }

    #[track_caller]
    fn are_well(&self, server: &TestServer<'_>, after: &str) {
        let running = server.client().sandbox(&self.running).expect("it is known");
        assert_eq!(
            (running.status, running.generation),
            (warren_wire::api::SandboxStatus::Ready, self.generation),
            "{after}"
        );
        assert_eq!(server.shell(&self.running, "cat file; pgrep -c sleep"), "whole\n1", "{after}");
        let stopped = server.client().sandbox(&self.stopped).expect("it is known");
        assert!(stopped.resumable && stopped.death.is_some_and(|death| death.files_kept), "{after}");
    }

    fn can_go_on(&self, server: &TestServer<'_>) {
        server.warren(["resume", &self.stopped]).ok();
        assert_eq!(server.shell(&self.stopped, "cat file"), "whole");
    }
}

#[test]
fn a_crash_at_any_step_of_the_engine_loses_nothing_that_was_acknowledged() {
    crash_at_each(&EngineStep::ALL.map(EngineStep::name));
}

#[test]
fn a_crash_of_the_server_at_any_step_of_the_backend_loses_nothing_that_was_acknowledged() {
    crash_at_each(&CrashPoint::ALL.map(CrashPoint::name));
}

/// Kills the server at each step, and looks for what is left, the sandbox's network included.
///
/// Steps of a sandbox's history are tried beside the tests of histories, those of a change of its
/// network beside the tests of networks, those of the late layer on `/usr` beside the tests of the
/// machine inside, those of other backends in their conformance, those of processes that are put on
/// disk beside the tests of those, and those of an image's build and of a move between backends in
/// the engine's own tests.
fn crash_at_each(steps: &[&str]) {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let mut server = TestServer::setup(&env).inside(&internet).set("network.default", "public").start();
    let bystanders = Bystanders::make(&server);
    let others =
        ["engine.image.", "engine.move.", "engine.memory.", "defer.", "memory.", "oci.", "docker.", "lxd."];
    let elsewhere = |step: &&str| {
        is_of_history(step) || is_of_a_change(step) || others.iter().any(|begin| step.starts_with(begin))
    };
    for step in steps.iter().copied().filter(|step| !elsewhere(step)) {
        let ask = ask_for(step);
        // Else the next server would remove what went before, and come past its own step at once.
        let settled = |server: &TestServer<'_>| remains(server, &env) == 0;
        eventually(PATIENCE, &format!("all is removed before {step}"), || settled(&server));
        server.kill();
        server.start_again_with(|setup| setup.crash_at(step));
        let before = listed(&server);
        let target = prepare(&server, ask);
        // An answer that came before the end is an acknowledgement too: `reap` goes on after it.
        let answer = perform(&server, ask, target.as_deref());
        let status = server.ended(PATIENCE);
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(signal, Some(SIGKILL), "{ask:?} does not come past {step}: {answer:?}");
        server.start_again();
        server.assert_agreement();
        eventually(PATIENCE, &format!("the remains of {step} are removed"), || settled(&server));
        bystanders.are_well(&server, step);
        match target.or_else(|| listed(&server).into_iter().find(|id| !before.contains(id))) {
            Some(id) => assert_whole_or_gone(&server, (step, ask), &id, answer.is_ok()),
            None => assert!(answer.is_err() && ask == Ask::Create, "{step}: it is nowhere"),
        }
    }
    bystanders.can_go_on(&server);
    server.finish();
    internet.assert_clean();
}

fn is_of_a_change(step: &str) -> bool {
    ["engine.network.tightened", "engine.network.written", "engine.network.relaxed"].contains(&step)
}

fn listed(server: &TestServer<'_>) -> Vec<String> {
    let query = SandboxQuery { ended: true, ..SandboxQuery::default() };
    let page = server.client().sandboxes(&query).expect("sandboxes are listed");
    page.items.into_iter().map(|sandbox| sandbox.sandbox_id).collect()
}

/// Counts directories of sandboxes that are no more.
fn remains(server: &TestServer<'_>, env: &TestEnv) -> usize {
    let kept = server.client().sandboxes(&SandboxQuery::default()).expect("sandboxes are listed").items;
    let names = ["sandboxes", "trash"].map(|place| fs::read_dir(env.data_dir().join(place)));
    let names = names.into_iter().flat_map(|names| names.expect("it can be read")).flatten();
    names.filter(|name| kept.iter().all(|kept| *kept.sandbox_id != *name.file_name())).count()
}

/// Brings a sandbox to where the ask can be done.
fn prepare(server: &TestServer<'_>, ask: Ask) -> Option<String> {
    if ask == Ask::Create {
        return None;
    }
    let id = server.create();
    server.shell(&id, "echo work > file");
    match ask {
        Ask::Resume | Ask::DeleteStopped => drop(server.warren(["stop", &id]).ok()),
        Ask::Thaw => drop(server.warren(["pause", &id]).ok()),
        Ask::Create | Ask::Stop | Ask::Delete | Ask::Pause => {}
    }
    Some(id)
}

fn perform(server: &TestServer<'_>, ask: Ask, id: Option<&str>) -> Result<Sandbox, ClientError> {
    let (client, id) = (server.client(), id.unwrap_or_default());
    match ask {
        Ask::Create => client.create_sandbox(&CreateSandbox::default(), None),
        Ask::Resume | Ask::Thaw => client.resume(id),
        Ask::Stop => client.stop(id),
        Ask::Delete | Ask::DeleteStopped => client.delete_sandbox(id),
        Ask::Pause => client.pause(id),
    }
}

/// Checks the sandbox that the crash was about, as soon as records and machine agree.
#[track_caller]
fn assert_whole_or_gone(server: &TestServer<'_>, (step, ask): (&str, Ask), id: &str, acknowledged: bool) {
    let sandbox = server.client().sandbox(id).unwrap_or_else(|error| panic!("{step}: {error:?}"));
    let state = serde_json::to_value(sandbox.status).expect("a status is a word");
    let state = state.as_str().unwrap_or_default();
    match ask {
        Ask::Create if state == "ready" => assert_eq!(server.shell(id, "echo whole"), "whole", "{step}"),
        Ask::Create => {
            assert!(!acknowledged && state == "failed" && !sandbox.resumable, "{step}: {sandbox:?}");
            assert!(server.warren(["why", id]).ok().text().contains("backend_error"), "{step}");
        }
        Ask::Delete | Ask::DeleteStopped => {
            assert!(state == "stopped" && !sandbox.resumable, "{step}: {sandbox:?}");
            server.warren(["exec", id, "--", "true"]).ended(125);
            return;
        }
        Ask::Stop => {
            assert!(state == "stopped" && sandbox.resumable, "{step}: {sandbox:?}");
            assert!(server.warren(["why", id]).ok().text().contains("killed, by local"), "{step}");
            resumes_with_its_work(server, id, step);
        }
        Ask::Resume => resumes_with_its_work(server, id, step),
        Ask::Pause | Ask::Thaw => {
            assert!(["ready", "paused"].contains(&state), "{step}: {sandbox:?}");
            resumes_with_its_work(server, id, step);
        }
    }
    server.warren(["rm", id]).ok();
}

#[track_caller]
fn resumes_with_its_work(server: &TestServer<'_>, id: &str, step: &str) {
    if server.status(id) != "ready" {
        server.warren(["resume", id]).ok();
    }
    assert_eq!(server.shell(id, "cat file"), "work", "{step}");
}

/// An idempotency key is written with what it made: a client that was not answered asks again, and
/// has one sandbox.
#[test]
fn a_create_that_was_cut_short_can_be_asked_for_again() {
    let env = TestEnv::new();
    let mut server = TestServer::setup(&env).crash_at("engine.create.ready").start();
    let lost = server.client().create_sandbox(&CreateSandbox::default(), Some("once"));
    assert!(lost.is_err(), "{lost:?}");
    server.ended(PATIENCE);
    server.start_again();
    let made = server.client().create_sandbox(&CreateSandbox::default(), Some("once")).unwrap();
    eventually(PATIENCE, "it is ready", || server.status(&made.sandbox_id) == "ready");
    assert_eq!(listed(&server), [made.sandbox_id]);
    server.finish();
}
