//! Files outlive processes.

use warren_core::IsolationErrorKind;

use super::inside::{assert_answers, has_ended, read, spawn, write};
use super::{PATIENCE, Rig, again, assert_refused, checks, create, listed, made};

checks![
    files_are_kept_over_halts_and_processes_are_not,
    what_died_starts_again_without_a_halt,
    a_start_that_is_refused_leaves_the_files,
];

fn files_are_kept_over_halts_and_processes_are_not(rig: &mut dyn Rig) {
    let request = made(rig);
    let id = &request.id;
    for round in ["one", "two", "three"] {
        write(rig.backend(), id, "/root/kept", round);
        spawn(rig.backend(), id, &["sleep", "1000"]);
        let watched = rig.backend().watch(id).expect("watch");
        rig.backend().halt(id).expect("halt");
        assert!(has_ended(&watched, PATIENCE));
        rig.backend().halt(id).expect("halt again");
        let found = listed(rig, id).expect("it is listed");
        assert!(!found.alive && found.pid.is_none(), "{found:?}");
        assert_refused(rig.backend().dial(id), IsolationErrorKind::Ended, "dial what was halted");
        create(rig, &again(&request));
        assert_eq!(read(rig.backend(), id, "/root/kept").as_deref(), Some(round));
        assert!(listed(rig, id).is_some_and(|found| found.alive));
    }
}

fn what_died_starts_again_without_a_halt(rig: &mut dyn Rig) {
    let request = made(rig);
    write(rig.backend(), &request.id, "/root/kept", "work");
    let watched = rig.backend().watch(&request.id).expect("watch");
    rig.kill_first_process(&request.id);
    assert!(has_ended(&watched, PATIENCE));
    create(rig, &again(&request));
    assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("work"));
    assert_answers(rig.backend(), &request.id);
}

fn a_start_that_is_refused_leaves_the_files(rig: &mut dyn Rig) {
    let request = made(rig);
    write(rig.backend(), &request.id, "/root/kept", "work");
    rig.backend().halt(&request.id).expect("halt");
    // A fresh sandbox in its place would lose the files.
    assert_refused(rig.backend().create(request.clone()), IsolationErrorKind::AlreadyExists, "a fresh one");
    create(rig, &again(&request));
    assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("work"));
}
