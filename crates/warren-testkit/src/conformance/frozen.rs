//! Freezing, and dialing an agent that does not answer.

use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::time::Duration;

use warren_core::{Isolation, IsolationError, IsolationErrorKind, SandboxId};
use warren_wire::guest::{Connection, Request, Start, Stdin};

use super::inside::{assert_answers, dial, follow, run};
use super::{PATIENCE, Rig, checks, listed, made};

checks![
    a_frozen_sandbox_stands_still_and_goes_on,
    a_frozen_sandbox_ends_like_any_other,
    dialing_never_waits_for_the_agent,
    a_caller_who_is_not_read_is_in_nobody_s_way,
];

/// More than any agent's queue holds.
const CALLERS: usize = 600;

fn a_frozen_sandbox_stands_still_and_goes_on(rig: &mut dyn Rig) {
    if !rig.backend().capabilities().freeze {
        return;
    }
    let id = made(rig).id;
    for _ in 0..2 {
        rig.backend().freeze(&id).expect("freeze");
        rig.backend().freeze(&id).expect("freeze again");
        assert!(listed(rig, &id).is_some_and(|found| found.alive && found.frozen));
        let caller = dial(rig.backend(), &id);
        caller.set_read_timeout(Some(Duration::from_millis(300))).expect("a time limit");
        assert!(follow(caller, &["true"]).is_err(), "it does not answer");
        rig.backend().thaw(&id).expect("thaw");
        rig.backend().thaw(&id).expect("thaw again");
        assert!(listed(rig, &id).is_some_and(|found| found.alive && !found.frozen));
        assert_answers(rig.backend(), &id);
    }
}

fn a_frozen_sandbox_ends_like_any_other(rig: &mut dyn Rig) {
    if !rig.backend().capabilities().freeze {
        return;
    }
    let [halted, destroyed] = [made(rig), made(rig)];
    for request in [&halted, &destroyed] {
        rig.backend().freeze(&request.id).expect("freeze");
    }
    rig.backend().halt(&halted.id).expect("halt");
    assert!(listed(rig, &halted.id).is_some_and(|found| !found.alive && !found.frozen));
    rig.backend().destroy(&destroyed.id).expect("destroy");
}

/// A dial that waited for a frozen agent would wait for ever.
fn dialing_never_waits_for_the_agent(rig: &mut dyn Rig) {
    let id = made(rig).id;
    let freezes = rig.backend().capabilities().freeze;
    if freezes {
        rig.backend().freeze(&id).expect("freeze");
    }
    let answers = dial_many(rig.backend(), &id);
    for answer in &answers {
        if let Err(error) = answer {
            assert_eq!(error.kind, IsolationErrorKind::Busy, "{}", super::told(error));
        }
    }
    assert!(answers.iter().any(Result::is_ok), "some are let in");
    if freezes {
        rig.backend().thaw(&id).expect("thaw");
    }
    drop(answers);
    assert_answers(rig.backend(), &id);
}

fn dial_many(backend: &dyn Isolation, id: &SandboxId) -> Vec<Result<OwnedFd, IsolationError>> {
    std::thread::scope(|scope| {
        let (tell, told) = channel();
        scope.spawn(move || {
            for _ in 0..CALLERS {
                if tell.send(backend.dial(id)).is_err() {
                    return;
                }
            }
        });
        (0..CALLERS).map(|_| told.recv_timeout(PATIENCE).expect("a dial returns")).collect()
    })
}

fn a_caller_who_is_not_read_is_in_nobody_s_way(rig: &mut dyn Rig) {
    let id = made(rig).id;
    let stream = dial(rig.backend(), &id);
    stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a time limit");
    let argv = ["sleep", "1000"].map(Into::into).to_vec();
    let start = Start { argv, stdin: Stdin::Piped, follow: Some(Default::default()), ..Start::default() };
    let mut call = Connection::open(stream, &Request::Start(start)).expect("a call");
    call.reply().expect("it runs");
    let piece = vec![b'x'; 64 << 10];
    let sent = (0..1024).take_while(|_| call.send_data(&piece).is_ok()).count();
    assert!(sent > 0);
    assert_answers(rig.backend(), &id);
    assert_eq!(run(rig.backend(), &id, &["true"]).0, 0);
}
