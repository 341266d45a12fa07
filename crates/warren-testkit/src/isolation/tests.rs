use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use warren_core::{OwnerBond, Random, RootState, SandboxSpec, TemplateName, Templates};
use warren_wire::guest::{
    CallError, Connection, ExitCause, FailureCode, FileCall, FileOperation, FrameKind, ProcessId,
    ProcessSelector, Reader, Reply, Request, SignalCall, Start, Stdin, WriteMode,
};

use super::*;
use crate::{FakeRandom, FakeTemplates};

fn request(seed: u64) -> CreateRequest {
    let id = SandboxId::from_random(FakeRandom::new(seed).bits());
    let spec = SandboxSpec::new(TemplateName::host());
    FakeTemplates::new().request(&id, &spec, OwnerBond::Outlives).unwrap()
}

fn made() -> (Arc<FakeIsolation>, SandboxId) {
    let backend = FakeIsolation::new();
    let id = backend.create(request(1)).unwrap().id;
    (backend, id)
}

fn stream(backend: &FakeIsolation, id: &SandboxId) -> UnixStream {
    UnixStream::from(backend.dial(id).unwrap())
}

fn start(line: &str, stdin: Stdin) -> Request {
    let argv = line.split(' ').map(Into::into).collect();
    Request::Start(Start { argv, stdin, follow: Some(Reader::Holds), ..Start::default() })
}

/// Standard output, standard error and the exit code.
fn collect(mut call: Connection<UnixStream>) -> (String, String, i32) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    loop {
        let frame = call.next_frame().unwrap().expect("an exit before the end");
        match frame.kind {
            FrameKind::Stdout => out.extend(frame.payload),
            FrameKind::Stderr => err.extend(frame.payload),
            FrameKind::Message => match minicbor::decode(&frame.payload).unwrap() {
                Reply::Started(_) => {}
                Reply::Exited(exit) => {
                    return (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap(), exit.code);
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

fn run(backend: &FakeIsolation, id: &SandboxId, line: &str) -> (String, String, i32) {
    collect(Connection::open(stream(backend, id), &start(line, Stdin::Null)).unwrap())
}

#[test]
fn programs_do_what_they_are_known_for() {
    let (backend, id) = made();
    let plain = |text: &str, code| (text.to_owned(), String::new(), code);
    assert_eq!(run(&backend, &id, "true"), plain("", 0));
    assert_eq!(run(&backend, &id, "false"), plain("", 1));
    assert_eq!(run(&backend, &id, "echo a b"), plain("a b\n", 0));
    assert_eq!(run(&backend, &id, "yes 3"), plain("y\ny\ny\n", 0));
    assert_eq!(run(&backend, &id, "cat"), plain("", 0));
    assert_eq!(run(&backend, &id, "sleep 0.01"), plain("", 0));
    assert_eq!(run(&backend, &id, "fail"), (String::new(), "failed\n".to_owned(), 3));
    assert_eq!(run(&backend, &id, "nonsense").2, 127);
    let large = run(&backend, &id, "yes 500000").0;
    assert_eq!(large.len(), 1_000_000);
    backend.assert_only(&[id]);
}

#[test]
fn standard_input_comes_back_from_cat() {
    let (backend, id) = made();
    let mut call = Connection::open(stream(&backend, &id), &start("cat", Stdin::Piped)).unwrap();
    call.send_data(b"hello").unwrap();
    call.send_end().unwrap();
    assert_eq!(collect(call), ("hello".to_owned(), String::new(), 0));
}

#[test]
fn a_signal_ends_a_process_and_those_who_wait_are_told() {
    let (backend, id) = made();
    let process = ProcessSelector::Id(ProcessId(1));
    let start = Start { argv: vec!["sleep".into(), "1000".into()], ..Start::default() };
    Connection::ask(stream(&backend, &id), &Request::Start(start)).unwrap();
    let mut waiter =
        Connection::open(stream(&backend, &id), &Request::Wait { process: process.clone() }).unwrap();
    assert_eq!(backend.running(&id), 1);
    let signal = SignalCall { process, signal: 15, group: true };
    let signal = Request::Signal(signal);
    assert_eq!(Connection::ask(stream(&backend, &id), &signal).unwrap(), Reply::Done);
    let Reply::Exited(exit) = waiter.reply().unwrap() else { panic!("no exit") };
    assert_eq!((exit.code, exit.cause), (143, ExitCause::Signalled { signal: 15 }));
    let again = Connection::ask(stream(&backend, &id), &signal).unwrap_err();
    assert!(matches!(again, CallError::Failed(failure) if failure.code == FailureCode::Ended));
}

#[test]
fn a_frozen_agent_answers_once_it_is_thawed() {
    let (backend, id) = made();
    backend.freeze(&id).unwrap();
    let near = stream(&backend, &id);
    near.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut call = Connection::open(near, &Request::Ping).unwrap();
    assert!(matches!(call.reply(), Err(CallError::Stream(_))), "it answered while frozen");
    backend.thaw(&id).unwrap();
    call.stream().set_read_timeout(None).unwrap();
    assert!(matches!(call.reply().unwrap(), Reply::Pong(_)));
}

#[test]
fn files_outlive_a_halt_and_not_a_destroy() {
    let (backend, id) = made();
    assert_eq!(run(&backend, &id, "write /tmp/a text").2, 0);
    backend.halt(&id).unwrap();
    backend.halt(&id).unwrap();
    assert_eq!(backend.dial(&id).unwrap_err().kind, IsolationErrorKind::Ended);
    backend.create(CreateRequest { state: RootState::Kept, ..request(1) }).unwrap();
    assert_eq!(run(&backend, &id, "read /tmp/a").0, "text");
    backend.destroy(&id).unwrap();
    assert_eq!(backend.dial(&id).unwrap_err().kind, IsolationErrorKind::NotFound);
    backend.assert_only(&[]);
}

#[test]
fn a_write_that_breaks_off_leaves_the_old_content() {
    let (backend, id) = made();
    run(&backend, &id, "write /tmp/a old");
    let operation = FileOperation::Write {
        path: "/tmp/a".into(),
        mode: WriteMode::Replace,
        permissions: None,
        parents: false,
    };
    let request = Request::File(FileCall { user: None, operation, as_root: None });
    let mut call = Connection::open(stream(&backend, &id), &request).unwrap();
    assert_eq!(call.reply().unwrap(), Reply::Done);
    call.send_data(b"new").unwrap();
    drop(call);
    assert_eq!(run(&backend, &id, "read /tmp/a").0, "old");
}

#[test]
fn who_watches_learns_of_the_end() {
    let (backend, id) = made();
    let mut watcher = UnixStream::from(backend.watch(&id).unwrap());
    let mut follower = Connection::open(stream(&backend, &id), &start("sleep 1000", Stdin::Null)).unwrap();
    assert!(matches!(follower.reply().unwrap(), Reply::Started(_)));
    backend.die(&id, true);
    assert_eq!(watcher.read(&mut [0]).unwrap(), 0);
    assert!(matches!(follower.next_frame(), Ok(None)));
    assert_eq!(backend.usage(&id).unwrap().oom_kills, 1);
    assert_eq!(backend.standing(&id), Some(Standing::Dead));
    backend.assert_clean();
}

#[test]
fn broken_rules_are_written_down() {
    type Offence = fn(&FakeIsolation, &SandboxId);
    let cases: [(&str, Offence); 5] = [
        ("Fresh create", |backend, _| drop(backend.create(request(1)))),
        ("Kept create", |backend, _| {
            drop(backend.create(CreateRequest { state: RootState::Kept, ..request(1) }))
        }),
        ("halted", |backend, id| {
            backend.halt(id).unwrap();
            drop(backend.freeze(id));
        }),
        ("destroyed", |backend, id| {
            backend.destroy(id).unwrap();
            drop(backend.destroy(id));
        }),
        ("files that were destroyed", |backend, id| {
            backend.destroy(id).unwrap();
            drop(backend.create(CreateRequest { state: RootState::Kept, ..request(1) }));
        }),
    ];
    for (expected, act) in cases {
        let (backend, id) = made();
        act(&backend, &id);
        let violations = backend.violations();
        assert!(violations.len() == 1 && violations[0].contains(expected), "{expected}: {violations:?}");
    }
}

#[test]
fn two_calls_at_once_for_one_id_are_written_down() {
    let (backend, id) = made();
    let hold = backend.hold(Call::Freeze);
    std::thread::scope(|scope| {
        scope.spawn(|| backend.freeze(&id).unwrap());
        while backend.held(Call::Freeze) == 0 {
            std::thread::yield_now();
        }
        backend.thaw(&id).unwrap();
        drop(hold);
    });
    assert_eq!(backend.violations(), [format!("thaw of {id} while freeze runs")]);
}

#[test]
fn a_call_fails_when_it_was_told_to_and_has_no_effect() {
    let (backend, id) = made();
    backend.fail_next(Call::Halt, IsolationErrorKind::Host);
    assert_eq!(backend.halt(&id).unwrap_err().kind, IsolationErrorKind::Host);
    assert_eq!(backend.standing(&id), Some(Standing::Running));
    backend.halt(&id).unwrap();
    assert_eq!(backend.calls(Call::Halt), 2);
}

#[test]
fn thousands_of_calls_take_little_time() {
    let (backend, id) = made();
    let began = Instant::now();
    for _ in 0..5000 {
        Connection::ask(stream(&backend, &id), &Request::Ping).unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
}
