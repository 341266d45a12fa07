//! Being made, being seen, and ending.

use std::time::Duration;

use warren_core::{IsolationErrorKind, OwnerBond, RootState};

use super::inside::{assert_answers, has_ended, run, spawn};
use super::{
    CreateRequest, PATIENCE, Rig, again, assert_nothing_is_left, assert_refused, checks, create, listed,
    made, request,
};

checks![
    a_new_sandbox_answers_and_is_listed_as_it_is,
    sandboxes_are_listed_each_for_itself,
    an_id_is_used_once_and_free_after_the_end,
    a_destroyed_sandbox_is_gone_whatever_it_did,
    an_id_that_nobody_has_is_not_found,
    who_watches_sees_the_end,
    one_that_is_handed_over_tells_its_new_spec,
    figures_are_told_while_it_lives,
    probes_and_the_name_are_told_at_any_time,
];

fn a_new_sandbox_answers_and_is_listed_as_it_is(rig: &mut dyn Rig) {
    let request = made(rig);
    assert_answers(rig.backend(), &request.id);
    assert_eq!(run(rig.backend(), &request.id, &["true"]).0, 0);
    let found = listed(rig, &request.id).expect("it is listed");
    assert!(found.alive && !found.frozen, "{found:?}");
    assert_eq!((&found.spec, found.owner, found.root), (&request.spec, request.owner, request.root));
}

fn sandboxes_are_listed_each_for_itself(rig: &mut dyn Rig) {
    let [one, two, three] = [made(rig), made(rig), made(rig)];
    rig.backend().halt(&two.id).expect("halt");
    rig.backend().destroy(&three.id).expect("destroy");
    let mut seen: Vec<_> =
        rig.backend().list().expect("list").into_iter().map(|found| (found.id, found.alive)).collect();
    seen.sort();
    let mut expected = vec![(one.id.clone(), true), (two.id.clone(), false)];
    expected.sort();
    assert_eq!(seen, expected);
    assert_answers(rig.backend(), &one.id);
}

fn an_id_is_used_once_and_free_after_the_end(rig: &mut dyn Rig) {
    let request = made(rig);
    for state in [RootState::Fresh, RootState::Kept] {
        let second = CreateRequest { state, ..request.clone() };
        assert_refused(rig.backend().create(second), IsolationErrorKind::AlreadyExists, "a second create");
    }
    assert_answers(rig.backend(), &request.id);
    rig.backend().destroy(&request.id).expect("destroy");
    assert!(rig.backend().settle(PATIENCE));
    create(rig, &request);
    assert_answers(rig.backend(), &request.id);
}

fn a_destroyed_sandbox_is_gone_whatever_it_did(rig: &mut dyn Rig) {
    let [idle, busy, halted, dead] = [made(rig), made(rig), made(rig), made(rig)];
    spawn(rig.backend(), &busy.id, &["sleep", "1000"]);
    rig.backend().halt(&halted.id).expect("halt");
    rig.kill_first_process(&dead.id);
    for request in [&idle, &busy, &halted, &dead] {
        rig.backend().destroy(&request.id).expect("destroy");
        assert!(listed(rig, &request.id).is_none());
        assert_refused(rig.backend().destroy(&request.id), IsolationErrorKind::NotFound, "destroy again");
    }
    assert_nothing_is_left(rig);
}

fn an_id_that_nobody_has_is_not_found(rig: &mut dyn Rig) {
    let request = request(rig);
    let (backend, id, none) = (rig.backend(), &request.id, IsolationErrorKind::NotFound);
    assert_refused(backend.dial(id), none, "dial");
    assert_refused(backend.watch(id), none, "watch");
    assert_refused(backend.hand_over(id, &request.spec), none, "hand over");
    assert_refused(backend.halt(id), none, "halt");
    assert_refused(backend.destroy(id), none, "destroy");
    assert_refused(backend.usage(id), none, "usage");
    assert_refused(backend.pulse(id), none, "pulse");
    assert_refused(backend.create(again(&request)), none, "start again");
    if backend.capabilities().freeze {
        assert_refused(backend.freeze(id), none, "freeze");
        assert_refused(backend.thaw(id), none, "thaw");
    }
    if let Some(layered) = backend.layered() {
        assert_refused(layered.seal(id, &rig.place(), request.root.trees()), none, "seal");
        assert_refused(layered.writable(id), none, "writable");
        assert_refused(layered.clear(id), none, "clear");
    }
    assert!(backend.list().expect("list").is_empty());
}

fn who_watches_sees_the_end(rig: &mut dyn Rig) {
    let [halted, dead, destroyed] = [made(rig), made(rig), made(rig)];
    let watch = |request: &CreateRequest| rig.backend().watch(&request.id).expect("watch");
    let watched = [watch(&halted), watch(&dead), watch(&destroyed)];
    assert!(watched.iter().all(|watched| !has_ended(watched, Duration::ZERO)), "they live");
    rig.backend().halt(&halted.id).expect("halt");
    rig.kill_first_process(&dead.id);
    rig.backend().destroy(&destroyed.id).expect("destroy");
    assert!(watched.iter().all(|watched| has_ended(watched, PATIENCE)), "they have ended");
    for request in [&halted, &dead] {
        assert!(has_ended(&watch(request), PATIENCE), "it is seen at once by who comes later");
        assert!(!listed(rig, &request.id).expect("its files are there").alive);
        assert_refused(rig.backend().dial(&request.id), IsolationErrorKind::Ended, "dial what ended");
    }
}

fn figures_are_told_while_it_lives(rig: &mut dyn Rig) {
    let request = made(rig);
    let usage = rig.backend().usage(&request.id).expect("usage");
    assert!(usage.pids >= 1 && !usage.disk_exceeded, "{usage:?}");
    let pulse = rig.backend().pulse(&request.id).expect("pulse");
    assert!(pulse.cpu_ns >= usage.cpu_ns, "time does not go back");
    rig.backend().flush(&request.id).expect("flush");
}

fn probes_and_the_name_are_told_at_any_time(rig: &mut dyn Rig) {
    let name = rig.backend().name();
    assert!(
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()),
        "{name}"
    );
    assert!(!rig.backend().probe().is_empty());
    rig.backend().space().expect("space");
    let mut request = request(rig);
    request.owner = OwnerBond::DiesWithOwner;
    create(rig, &request);
    assert!(!rig.backend().probe().is_empty());
}

fn one_that_is_handed_over_tells_its_new_spec(rig: &mut dyn Rig) {
    let request = made(rig);
    let watched = rig.backend().watch(&request.id).expect("watch");
    let mut spec = request.spec.clone();
    spec.labels.insert("whose".to_owned(), "another's".to_owned());
    rig.backend().hand_over(&request.id, &spec).expect("hand over");
    let found = listed(rig, &request.id).expect("it is listed");
    assert!(found.alive && found.spec == spec && found.root == request.root, "{found:?}");
    assert_answers(rig.backend(), &request.id);
    rig.backend().halt(&request.id).expect("halt");
    assert!(has_ended(&watched, PATIENCE), "who watched it before still sees its end");
}
