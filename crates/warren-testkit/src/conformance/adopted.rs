//! Another process takes over after the one before was killed at any step.

use warren_core::{IsolationErrorKind, OwnerBond};

use super::inside::{assert_answers, has_ended, read, write};
use super::{
    CreateRequest, Deed, PATIENCE, Rig, again, assert_nothing_is_left, assert_refused, checks, create,
    listed, made, request, spec,
};

checks![
    what_outlives_its_maker_is_found_running,
    what_was_halted_is_found_and_started,
    what_dies_with_its_maker_is_gone,
    a_kill_while_one_is_made_leaves_it_whole_or_not_at_all,
    a_kill_while_one_is_started_again_loses_no_file,
    a_kill_while_one_is_halted_loses_no_file,
    a_kill_while_one_is_removed_is_finished_by_the_next,
];

fn outlives(rig: &dyn Rig) -> bool {
    rig.backend().capabilities().outlives_server
}

fn what_outlives_its_maker_is_found_running(rig: &mut dyn Rig) {
    if !outlives(rig) {
        let request = rig.request(spec(), OwnerBond::Outlives);
        assert_refused(rig.backend().create(request), IsolationErrorKind::Unsupported, "outliving");
        return;
    }
    let request = made(rig);
    write(rig.backend(), &request.id, "/root/kept", "work");
    rig.reopen();
    let found = listed(rig, &request.id).expect("it is found");
    assert!(found.alive && found.spec == request.spec && found.root == request.root, "{found:?}");
    assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("work"));
    let watched = rig.backend().watch(&request.id).expect("watch");
    rig.backend().halt(&request.id).expect("halt");
    assert!(has_ended(&watched, PATIENCE));
}

fn what_was_halted_is_found_and_started(rig: &mut dyn Rig) {
    if !outlives(rig) {
        return;
    }
    let request = made(rig);
    write(rig.backend(), &request.id, "/root/kept", "work");
    rig.backend().halt(&request.id).expect("halt");
    rig.reopen();
    assert!(listed(rig, &request.id).is_some_and(|found| !found.alive));
    create(rig, &again(&request));
    assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("work"));
}

fn what_dies_with_its_maker_is_gone(rig: &mut dyn Rig) {
    let [running, halted] = [(); 2].map(|()| rig.request(spec(), OwnerBond::DiesWithOwner));
    create(rig, &running);
    create(rig, &halted);
    rig.backend().halt(&halted.id).expect("halt");
    rig.reopen();
    assert!(rig.backend().settle(PATIENCE));
    assert!(rig.backend().list().expect("list").is_empty(), "they are orphans");
    assert_nothing_is_left(rig);
}

fn a_kill_while_one_is_made_leaves_it_whole_or_not_at_all(rig: &mut dyn Rig) {
    for step in rig.steps(Deed::Create) {
        let request = request(rig);
        rig.crash(&step, Deed::Create, &request);
        assert!(rig.backend().settle(PATIENCE), "{step}");
        if let Some(found) = listed(rig, &request.id) {
            assert!(found.alive, "{step}: {found:?}");
            assert_answers(rig.backend(), &request.id);
        } else {
            assert_eq!(rig.leftovers(), Vec::<String>::new(), "{step}");
            create(rig, &request);
        }
        rig.backend().destroy(&request.id).expect("destroy");
        assert_nothing_is_left(rig);
    }
}

/// Checks that the sandbox's files are there and that it runs again.
fn assert_recovers(rig: &dyn Rig, step: &str, request: &CreateRequest) {
    assert!(rig.backend().settle(PATIENCE), "{step}");
    let found = listed(rig, &request.id).unwrap_or_else(|| panic!("{step}: it is lost"));
    if !found.alive {
        create(rig, &CreateRequest { root: found.root, ..again(request) });
    }
    assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("work"), "{step}");
}

fn a_kill_while_one_is_started_again_loses_no_file(rig: &mut dyn Rig) {
    if !outlives(rig) {
        return;
    }
    let request = made(rig);
    write(rig.backend(), &request.id, "/root/kept", "work");
    for step in rig.steps(Deed::Start) {
        rig.backend().halt(&request.id).expect("halt");
        rig.crash(&step, Deed::Start, &again(&request));
        assert_recovers(rig, &step, &request);
    }
}

fn a_kill_while_one_is_halted_loses_no_file(rig: &mut dyn Rig) {
    if !outlives(rig) {
        return;
    }
    let request = made(rig);
    write(rig.backend(), &request.id, "/root/kept", "work");
    for step in rig.steps(Deed::Halt) {
        rig.crash(&step, Deed::Halt, &request);
        assert_recovers(rig, &step, &request);
    }
}

fn a_kill_while_one_is_removed_is_finished_by_the_next(rig: &mut dyn Rig) {
    if !outlives(rig) {
        return;
    }
    for step in rig.steps(Deed::Destroy) {
        let request = made(rig);
        rig.crash(&step, Deed::Destroy, &request);
        assert!(rig.backend().settle(PATIENCE), "{step}");
        if listed(rig, &request.id).is_some() {
            rig.backend().destroy(&request.id).unwrap_or_else(|error| panic!("{step}: {error}"));
        }
        assert_nothing_is_left(rig);
    }
}
