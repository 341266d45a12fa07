//! A start on a full machine.

use std::time::{Duration, Instant};

use warren_e2e::{TestEnv, TestServer};
use warren_wire::api::CreateSandbox;

const RUNNING: usize = 60;
const STOPPED: usize = 20;

/// Steps at which a server dies before the start that is measured, and the request that brings it
/// there.
const HALF_DONE: [&str; 6] = [
    "engine.create.recorded",
    "engine.create.made",
    "create.boot",
    "engine.delete.recorded",
    "engine.stop.halted",
    "destroy.trash",
];

#[test]
fn a_start_with_many_sandboxes_is_quick_and_removes_none_that_it_should_not() {
    let env = TestEnv::alone();
    let mut server = TestServer::start(&env);
    let ids = make_many(&server, RUNNING + STOPPED);
    let (stopped, running) = ids.split_at(STOPPED);
    stopped.iter().for_each(|id| drop(server.client().stop(id).unwrap()));
    for step in HALF_DONE {
        server.kill();
        server.start_again_with(|setup| setup.crash_at(step));
        leave_half_done(&server, step);
        server.ended(Duration::from_secs(60));
    }
    let started = Instant::now();
    server.start_again();
    let ready = server.started_in();
    server.assert_agreement();
    let reconciled = started.elapsed();
    warren_e2e::note(
        "MEASURED",
        0,
        &format!("{RUNNING} running, {STOPPED} stopped: answers in {ready:?}, reconciled in {reconciled:?}"),
    );
    assert!(ready < Duration::from_secs(20), "{ready:?}");
    assert!(reconciled < Duration::from_secs(60), "{reconciled:?}");
    let client = server.client();
    for id in running {
        assert_eq!(server.status(id), "ready");
    }
    for id in stopped {
        assert!(client.sandbox(id).unwrap().resumable);
    }
    for id in [&running[0], &running[RUNNING - 1]] {
        assert_eq!(server.shell(id, "cat file"), **id);
    }
    for id in [&stopped[0], &stopped[STOPPED - 1]] {
        client.resume(id).unwrap();
        assert_eq!(server.shell(id, "cat file"), **id);
    }
    server.finish();
}

/// Each with a file that has its id in it.
fn make_many(server: &TestServer<'_>, count: usize) -> Vec<String> {
    let ids = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let client = server.client();
                for _ in 0..count / 4 {
                    let id = client
                        .create_sandbox(&CreateSandbox::default(), None)
                        .expect("it is made")
                        .sandbox_id;
                    let command = warren_wire::api::Command::Shell(format!("echo {id} > file"));
                    let exec = warren_wire::api::Exec { command, ..Default::default() };
                    assert_eq!(client.exec(&id, &exec).expect("it runs").exit_code, 0);
                    ids.lock().expect("nobody panicked").push(id);
                }
            });
        }
    });
    ids.into_inner().expect("nobody panicked")
}

/// Asks for something, and is not answered.
fn leave_half_done(server: &TestServer<'_>, step: &str) {
    let client = server.client();
    let made = client.create_sandbox(&CreateSandbox::default(), None);
    let Ok(made) = made else { return };
    let asked = if step == "engine.stop.halted" {
        client.stop(&made.sandbox_id)
    } else {
        client.delete_sandbox(&made.sandbox_id)
    };
    assert!(asked.is_err(), "{step} was not come past: {asked:?}");
}
