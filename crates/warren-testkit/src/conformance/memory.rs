//! Processes that are put on disk and go on.

use warren_core::{CreateRequest, IsolationErrorKind};

use super::inside::{assert_answers, read, run, spawn, write};
use super::{Deed, PATIENCE, Rig, again, assert_refused, checks, create, listed, made, request};

checks![
    processes_go_on_from_disk_any_number_of_times,
    without_the_capability_no_sandbox_begins_with_processes,
    what_does_not_run_has_no_processes_to_be_put_on_disk,
    a_kill_while_processes_are_put_on_disk_leaves_the_files,
];

fn processes_go_on_from_disk_any_number_of_times(rig: &mut dyn Rig) {
    let Some(memory) = rig.backend().memory() else { return };
    let request = made(rig);
    write(rig.backend(), &request.id, "/root/kept", "work");
    spawn(rig.backend(), &request.id, &["sleep", "1000"]);
    let place = rig.place();
    memory.suspend(&request.id, &place).unwrap_or_else(|error| panic!("{}", super::told(&error)));
    assert!(!listed(rig, &request.id).expect("it is listed").alive);
    for number in 0..2 {
        create(rig, &CreateRequest { memory: Some(place.clone()), ..again(&request) });
        assert_answers(rig.backend(), &request.id);
        assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("work"));
        if rig.has_shell() {
            let line = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '";
            let (_, words) = run(rig.backend(), &request.id, &["sh", "-c", line]);
            assert!(words.contains("sleep 1000"), "{number}: {words}");
        }
        rig.backend().halt(&request.id).expect("halt");
    }
    create(rig, &again(&request));
    assert_answers(rig.backend(), &request.id);
}

fn without_the_capability_no_sandbox_begins_with_processes(rig: &mut dyn Rig) {
    let can = rig.backend().capabilities().memory_snapshots;
    assert_eq!(rig.backend().memory().is_some(), can);
    if can {
        return;
    }
    let request = CreateRequest { memory: Some(rig.place()), ..request(rig) };
    let id = request.id.clone();
    let error = rig.backend().create(request).expect_err("it has processes");
    assert_eq!(error.kind, IsolationErrorKind::Unsupported, "{}", super::told(&error));
    assert!(error.action.contains("`memory_snapshots`"), "{}", error.action);
    assert!(listed(rig, &id).is_none());
}

fn what_does_not_run_has_no_processes_to_be_put_on_disk(rig: &mut dyn Rig) {
    if rig.backend().memory().is_none() || !rig.has_shell() {
        return;
    }
    let request = made(rig);
    write(rig.backend(), &request.id, "/root/kept", "work");
    rig.backend().halt(&request.id).expect("halt");
    let place = rig.place();
    let memory = rig.backend().memory().expect("it has been there");
    assert_refused(memory.suspend(&request.id, &place), IsolationErrorKind::Ended, "suspend what is halted");
    assert!(!place.exists());
    create(rig, &again(&request));
    assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("work"));
}

fn a_kill_while_processes_are_put_on_disk_leaves_the_files(rig: &mut dyn Rig) {
    if rig.backend().memory().is_none() {
        return;
    }
    for step in rig.steps(Deed::Suspend) {
        let request = made(rig);
        write(rig.backend(), &request.id, "/root/kept", "work");
        rig.crash(&step, Deed::Suspend, &request);
        assert!(rig.backend().settle(PATIENCE), "{step}");
        let found = listed(rig, &request.id).unwrap_or_else(|| panic!("{step}: it is lost"));
        assert!(!found.alive, "{step}: {found:?}");
        create(rig, &again(&request));
        assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("work"), "{step}");
        rig.backend().destroy(&request.id).expect("destroy");
        assert!(rig.backend().settle(PATIENCE), "{step}");
    }
}
