//! Several walls on one server at the same time, and a server that is killed in the middle of work
//! behind each of them.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use warren_e2e::{Output, TestEnv, TestServer, eventually, note};
use warren_engine::EngineStep;
use warren_wire::api::{Command, CreateSandbox, Exec};

const SIGKILL: i32 = 9;
const PATIENCE: Duration = Duration::from_secs(60);
const WALLS: [&str; 4] = ["native", "crun", "runc", "runsc"];
const MANY: usize = 50;

fn server(env: &TestEnv) -> TestServer<'_> {
    TestServer::setup(env).set("backends.enabled", "[native, crun, runc, runsc]").start()
}

#[test]
fn fifty_sandboxes_behind_four_walls_work_at_once() {
    let env = TestEnv::alone();
    let server = server(&env);
    let began = Instant::now();
    let (next, made) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let client = server.client();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= MANY {
                        break;
                    }
                    let wall = WALLS[number % WALLS.len()];
                    let body = CreateSandbox { backend: Some(wall.to_owned()), ..CreateSandbox::default() };
                    let sandbox = client.create_sandbox(&body, None).expect("it is made");
                    assert_eq!(sandbox.backend, wall);
                    let command = Command::Shell(format!("echo {number} > own; cat own"));
                    let ran = client.exec(&sandbox.sandbox_id, &Exec { command, ..Exec::default() });
                    assert_eq!(ran.expect("it runs").stdout, format!("{number}\n"), "{wall}");
                    made.lock().expect("nobody panicked").push((number, sandbox.sandbox_id));
                }
            });
        }
    });
    let made = made.into_inner().expect("nobody panicked");
    let there = began.elapsed();
    assert_eq!(made.len(), MANY);
    // All of them are there at the same time, each with what it wrote.
    std::thread::scope(|scope| {
        for part in made.chunks(MANY / 5) {
            let server = &server;
            scope.spawn(move || {
                for (number, id) in part {
                    let exec = Exec { command: Command::Shell("cat own".to_owned()), ..Exec::default() };
                    let ran = server.client().exec(id, &exec).expect("it runs");
                    assert_eq!(ran.stdout, format!("{number}\n"));
                }
            });
        }
    });
    note("MEASURED", 0, &format!("{MANY} sandboxes behind four walls were there after {there:?}"));
    assert!(began.elapsed() < Duration::from_secs(240), "{:?}", began.elapsed());
    server.assert_agreement();
    server.finish();
}

/// A server that dies at a step of a request, and the next one.
struct Crash<'env> {
    server: TestServer<'env>,
    wall: &'static str,
}

impl Crash<'_> {
    fn create(&self) -> Output {
        self.server.warren(["create", "--backend", self.wall, "--user", "root", "--history", "off"])
    }

    /// Asks for something with a server that is to die at the step, and starts another.
    #[track_caller]
    fn at(&mut self, step: &str, ask: impl FnOnce(&Self) -> Output) -> Output {
        self.server.kill();
        self.server.start_again_with(|setup| setup.crash_at(step));
        let answer = ask(self);
        let status = self.server.ended(PATIENCE);
        assert_eq!(status.signal(), Some(SIGKILL), "{}: `{step}` is not come past: {answer:?}", self.wall);
        self.server.start_again();
        answer
    }
}

const CREATE_STEPS: [&str; 5] =
    ["create.spawn", "oci.staged", "oci.started", "create.record", "engine.create.made"];

fn snapshot_steps(wall: &str) -> &'static [&'static str] {
    match wall {
        "runsc" => {
            &["engine.copy.frozen", "engine.copy.copied", "engine.copy.thawed", "engine.snapshot.committed"]
        }
        _ => &["seal.prepared", "seal.moving", "seal.exchanged", "engine.snapshot.sealed"],
    }
}

fn dies_in_the_middle(wall: &'static str) {
    let env = TestEnv::new();
    let mut crash = Crash { server: server(&env), wall };
    let id = crash.create().ok().line();
    crash.server.shell(&id, "echo whole > file");
    for step in CREATE_STEPS {
        let answer = crash.at(step, Crash::create);
        crash.server.assert_agreement();
        assert_ne!(answer.code, Some(0), "{step}: it was acknowledged");
        assert_eq!(crash.server.shell(&id, "cat file"), "whole", "{step}");
    }
    for step in snapshot_steps(wall) {
        // With nothing to capture the step would not be come past.
        crash.server.shell(&id, &format!("echo {step} > changed"));
        crash.at(step, |crash| crash.server.warren(["snapshot", &id]));
        crash.server.assert_agreement();
        assert_eq!(crash.server.status(&id), "ready", "{step}");
        assert_eq!(crash.server.shell(&id, "cat file"), "whole", "{step}");
        crash.server.warren(["snapshot", &id]).ok();
    }
    // A command goes on without a server, and tells the next one all that it said.
    let line = "echo begun | tee begun; for i in 1 2 3 4 5 6 7 8; do sleep 0.5; echo $i; done";
    let exec = crash.server.command(["exec", &id, "--", "sh", "-c", line]).spawn().expect("it starts");
    eventually(PATIENCE, "it has begun", || {
        crash.server.warren(["exec", &id, "--", "cat", "begun"]).text() == "begun\n"
    });
    crash.server.kill();
    crash.server.start_again();
    let output = Output::from(exec.wait_with_output().expect("it ends")).ok();
    assert_eq!(output.text(), "begun\n1\n2\n3\n4\n5\n6\n7\n8\n", "{wall}");
    for step in
        EngineStep::ALL.map(EngineStep::name).into_iter().filter(|step| step.starts_with("engine.move."))
    {
        let (from, to) = (crash.server.client().sandbox(&id).expect("it is known").backend, wall);
        let to = if from == wall { "native" } else { to };
        crash.at(step, |crash| crash.server.warren(["move", &id, "--backend", to]));
        if crash.server.status(&id) != "ready" {
            crash.server.warren(["resume", &id]).ok();
        }
        // Between two walls it is in layers only, and nothing of it on either side.
        crash.server.assert_agreement();
        let now = crash.server.client().sandbox(&id).expect("it is known").backend;
        assert!(now == from || now == to, "{step}: {now}");
        assert_eq!(crash.server.shell(&id, "cat file"), "whole", "{step}: behind {now}");
    }
    crash.server.finish();
}

#[test]
fn a_server_that_is_killed_in_the_middle_of_work_behind_crun_loses_nothing() {
    dies_in_the_middle("crun");
}

#[test]
fn a_server_that_is_killed_in_the_middle_of_work_behind_runc_loses_nothing() {
    dies_in_the_middle("runc");
}

#[test]
fn a_server_that_is_killed_in_the_middle_of_work_behind_runsc_loses_nothing() {
    dies_in_the_middle("runsc");
}
