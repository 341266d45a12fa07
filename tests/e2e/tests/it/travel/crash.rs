//! A history after the server crashed at any step of making one.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use warren_e2e::{Output, TestEnv, TestServer, eventually};
use warren_engine::EngineStep;
use warren_isolate::CrashPoint;

use super::support::{create, fork, keep_busy, take};

const SIGKILL: i32 = 9;
const PATIENCE: Duration = Duration::from_secs(60);

/// A client's request that takes the server past a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Take,
    /// Of a sandbox that is never idle.
    TakeBusy,
    Rollback,
    /// Of a sandbox that is never idle: what it has is captured once it has ended.
    RollbackBusy,
    Fork,
    Promote,
    Delete,
    Import,
    /// One snapshot more than may stand on one another.
    TakeDeep,
}

/// Steps are known by what their names begin with.
fn ask_for(step: &str) -> Option<Ask> {
    let kinds = [
        ("engine.snapshot.forgotten", Ask::Delete),
        ("engine.snapshot.gone", Ask::Delete),
        ("engine.snapshot.", Ask::Take),
        ("engine.copy.", Ask::TakeBusy),
        ("engine.rollback.saved", Ask::RollbackBusy),
        ("engine.rollback.", Ask::Rollback),
        ("engine.fork.", Ask::Fork),
        ("engine.promote.", Ask::Promote),
        ("engine.import.", Ask::Import),
        ("engine.squash.", Ask::TakeDeep),
        ("seal.", Ask::Take),
    ];
    kinds.into_iter().find(|(begin, _)| step.starts_with(begin)).map(|(_, ask)| ask)
}

/// True if a step is tried here.
pub(crate) fn is_of_history(step: &str) -> bool {
    ask_for(step).is_some()
}

/// The sandbox that the crash is about, which has `now` in a file, and the snapshot `then` with
/// what was there before.
struct Scene {
    id: String,
    fork: Option<String>,
    archive: String,
}

impl Scene {
    fn set(env: &TestEnv, server: &TestServer<'_>, ask: Ask) -> Self {
        let id = create(server, &["--history", "off"]);
        server.shell(&id, "echo then > file; echo shared > common");
        take(server, &id, &["--name", "then"]);
        take(server, &id, &["--name", "spare"]);
        let fork = (ask == Ask::Promote).then(|| fork(server, &id));
        if let Some(fork) = &fork {
            server.shell(fork, "echo of the fork > added");
        }
        let archive = env.path("crash.tar").to_string_lossy().into_owned();
        if ask == Ask::Import {
            server.warren(["export", &format!("{id}:then"), "--path", "/home/user", "-o", &archive]).ok();
        }
        if ask == Ask::TakeDeep {
            for number in 1..warren_core::SQUASH_DEPTH {
                server.shell(&id, &format!("echo {number} > deep"));
                take(server, &id, &[]);
            }
        }
        server.shell(&id, "echo now > file");
        if [Ask::TakeBusy, Ask::RollbackBusy].contains(&ask) {
            keep_busy(server, &id, "while :; do date +%N > tick; sleep 0.05; done");
        }
        Self { id, fork, archive }
    }

    fn perform(&self, server: &TestServer<'_>, ask: Ask) -> Output {
        let id = self.id.as_str();
        match ask {
            Ask::Take | Ask::TakeBusy | Ask::TakeDeep => server.warren(["snapshot", id, "--name", "new"]),
            Ask::Rollback | Ask::RollbackBusy => server.warren(["rollback", id, "then"]),
            Ask::Fork => server.warren(["fork", &format!("{id}:then"), "-n", "2"]),
            Ask::Promote => server.warren(["promote", self.fork.as_deref().unwrap_or_default(), "--apply"]),
            Ask::Delete => server.warren(["snapshots", "rm", &format!("{id}:spare")]),
            Ask::Import => server.warren(["import", &self.archive]),
        }
    }

    /// Nothing is lost, nothing is half there, and nobody is left frozen.
    #[track_caller]
    fn is_whole(&self, server: &TestServer<'_>, (step, ask): (&str, Ask), acknowledged: bool) {
        let id = self.id.as_str();
        if server.status(id) == "stopped" {
            let ends = [Ask::Rollback, Ask::RollbackBusy, Ask::Promote].contains(&ask);
            assert!(ends, "{step}: it was not to stop");
            server.warren(["resume", id]).ok();
        }
        assert_eq!(server.status(id), "ready", "{step}");
        let content = server.shell(id, "cat file; cat added 2>/dev/null || true");
        let snapshots = server.warren(["snapshots", id, "--json"]).ok().json();
        let snapshots = snapshots.as_array().expect("a list");
        let has = |name: &str| snapshots.iter().any(|one| one["name"] == name);
        let expected: &[&str] = match ask {
            Ask::Rollback | Ask::RollbackBusy if acknowledged => &["then"],
            Ask::Rollback | Ask::RollbackBusy => &["then", "now"],
            Ask::Promote if acknowledged => &["now\nof the fork"],
            Ask::Promote => &["now", "now\nof the fork"],
            _ => &["now"],
        };
        assert!(expected.contains(&content.as_str()), "{step}: {content}");
        if content == "then" {
            let safety = snapshots.iter().rfind(|one| one["reason"] == "safety");
            let safety =
                safety.and_then(|one| one["snapshot_id"].as_str()).expect("what was replaced is kept");
            self.shows(server, safety, "now", step);
        }
        self.shows(server, &format!("{id}:then"), "then", step);
        if acknowledged {
            assert_eq!(has("spare"), ask != Ask::Delete, "{step}");
        }
        if has("new") {
            self.shows(server, &format!("{id}:new"), "now", step);
        } else {
            let took = [Ask::Take, Ask::TakeBusy, Ask::TakeDeep].contains(&ask);
            assert!(!(took && acknowledged), "{step}: what was acknowledged is lost");
        }
        // The history goes on.
        server.shell(id, "echo later > file");
        take(server, id, &["--name", "later"]);
        self.shows(server, &format!("{id}:later"), "later", step);
        assert_eq!(server.shell(id, "cat common"), "shared", "{step}");
    }

    #[track_caller]
    fn shows(&self, server: &TestServer<'_>, point: &str, content: &str, step: &str) {
        let copy = fork(server, point);
        assert_eq!(server.shell(&copy, "cat file common"), format!("{content}\nshared"), "{step}: {point}");
        server.warren(["rm", &copy]).ok();
    }

    fn remove_all(server: &TestServer<'_>) {
        let ids = server.warren(["ls", "-q"]).ok().text();
        ids.lines().for_each(|id| drop(server.warren(["rm", id]).ok()));
        let snapshots = server.warren(["snapshots", "--json"]).ok().json();
        let ids = snapshots.as_array().expect("a list").iter().filter_map(|one| one["snapshot_id"].as_str());
        ids.for_each(|id| drop(server.warren(["snapshots", "rm", id])));
    }
}

#[test]
fn a_crash_at_any_step_of_the_engine_loses_no_state() {
    crash_at_each(&EngineStep::ALL.map(EngineStep::name));
}

#[test]
fn a_crash_at_any_step_of_a_seal_loses_no_state() {
    crash_at_each(&CrashPoint::ALL.map(CrashPoint::name));
}

fn crash_at_each(steps: &[&str]) {
    let env = TestEnv::new();
    let mut server = TestServer::setup(&env).set("timeouts.sweep", "1s").start();
    for (step, ask) in steps.iter().filter_map(|step| Some((*step, ask_for(step)?))) {
        let scene = Scene::set(&env, &server, ask);
        server.kill();
        server.start_again_with(|setup| setup.crash_at(step));
        let answer = scene.perform(&server, ask);
        let status = server.ended(PATIENCE);
        assert_eq!(status.signal(), Some(SIGKILL), "{ask:?} does not come past {step}: {answer:?}");
        server.start_again();
        server.assert_agreement();
        scene.is_whole(&server, (step, ask), answer.code == Some(0));
        Scene::remove_all(&server);
    }
    let layers = env.data_dir().join("layers");
    let left = || {
        let entries = std::fs::read_dir(&layers).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("layer-")).count()
    };
    eventually(PATIENCE, "no layer is left", || left() == 0);
    server.finish();
}
