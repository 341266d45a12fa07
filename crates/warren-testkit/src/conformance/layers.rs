//! Layers, of backends that have them.

use std::time::{Duration, Instant};

use warren_core::{IsolationErrorKind, Layered, OwnerBond, Root, Sealed, SnapshotSupport};

use super::inside::{assert_answers, open, read, spawn, write};
use super::{CreateRequest, Deed, PATIENCE, Rig, again, assert_refused, checks, create, listed, made};

checks![
    layers_are_there_where_capabilities_say_so,
    what_was_written_becomes_a_layer_that_others_can_stand_on,
    one_that_seems_untouched_has_written_nothing,
    a_halted_or_frozen_sandbox_is_sealed_as_it_stands,
    one_that_is_at_work_is_not_sealed,
    what_was_written_can_be_seen,
    only_what_was_halted_is_cleared,
    a_kill_while_one_is_sealed_leaves_it_sealed_or_not,
];

/// The layered part of the port; true if it can seal.
fn layered(rig: &dyn Rig) -> Option<(&dyn Layered, bool)> {
    let seals = rig.backend().capabilities().snapshots == SnapshotSupport::Sealed;
    rig.backend().layered().map(|layered| (layered, seals))
}

fn layers_are_there_where_capabilities_say_so(rig: &mut dyn Rig) {
    let promised = match rig.backend().capabilities().snapshots {
        SnapshotSupport::Sealed | SnapshotSupport::Copied => true,
        SnapshotSupport::Scanned | SnapshotSupport::None => false,
    };
    assert_eq!(rig.backend().layered().is_some(), promised);
}

/// Seals the request's sandbox if the backend can. Returns whether it was sealed.
#[track_caller]
fn seal(rig: &dyn Rig, request: &CreateRequest) -> Option<bool> {
    let (layered, seals) = layered(rig)?;
    let below = listed(rig, &request.id).expect("it is listed").root;
    let deadline = Instant::now() + PATIENCE;
    let sealed = loop {
        match layered.seal(&request.id, &rig.place(), below.trees()).expect("seal") {
            // What wrote last may not be gone to the end yet.
            Sealed::Busy { .. } if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            sealed => break sealed,
        }
    };
    match sealed {
        Sealed::Done { .. } => assert!(seals, "it says that it does not seal"),
        Sealed::Unmovable => assert!(!seals, "it says that it seals"),
        other => panic!("{other:?}"),
    }
    Some(seals)
}

fn depth(root: &Root) -> usize {
    root.trees().iter().map(|tree| tree.lowers.len()).sum()
}

fn what_was_written_becomes_a_layer_that_others_can_stand_on(rig: &mut dyn Rig) {
    let Some((_, true)) = layered(rig) else { return };
    let request = made(rig);
    let before = depth(&request.root);
    write(rig.backend(), &request.id, "/root/kept", "one");
    seal(rig, &request);
    let root = listed(rig, &request.id).expect("it is listed").root;
    assert!(depth(&root) > before, "it stands on one more");
    assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("one"));
    let layered = rig.backend().layered().expect("layers");
    let nothing = layered.seal(&request.id, &rig.place(), root.trees()).expect("seal");
    assert_eq!(nothing, Sealed::Unchanged, "nothing was written since");
    write(rig.backend(), &request.id, "/root/kept", "two");
    let other = rig.request(super::spec(), OwnerBond::DiesWithOwner);
    let other = CreateRequest { root, ..other };
    create(rig, &other);
    assert_eq!(read(rig.backend(), &other.id, "/root/kept").as_deref(), Some("one"));
    assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("two"));
}

fn one_that_seems_untouched_has_written_nothing(rig: &mut dyn Rig) {
    let Some((_, true)) = layered(rig) else { return };
    let request = made(rig);
    let untouched =
        |rig: &dyn Rig| layered(rig).is_some_and(|(layered, _)| layered.is_untouched(&request.id));
    let look = |rig: &dyn Rig| {
        let root = listed(rig, &request.id).expect("it is listed").root;
        layered(rig).expect("layers").0.seal(&request.id, &rig.place(), root.trees()).expect("seal")
    };
    assert_eq!(look(rig), Sealed::Unchanged);
    let promises = untouched(rig);
    write(rig.backend(), &request.id, "/root/kept", "one");
    assert!(!untouched(rig), "a file was written");
    // Who wrote it may be on its way out.
    let begun = Instant::now();
    let mut sealed = look(rig);
    while sealed == Sealed::Unmovable && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(2));
        sealed = look(rig);
    }
    assert!(matches!(sealed, Sealed::Done { .. }), "{sealed:?}");
    assert_eq!(look(rig), Sealed::Unchanged);
    assert_eq!(untouched(rig), promises, "nothing was written since");
    rig.backend().halt(&request.id).expect("halt");
    assert!(!untouched(rig), "it does not run");
}

fn a_halted_or_frozen_sandbox_is_sealed_as_it_stands(rig: &mut dyn Rig) {
    if layered(rig).is_none() {
        return;
    }
    let request = made(rig);
    write(rig.backend(), &request.id, "/root/kept", "work");
    if rig.backend().capabilities().freeze {
        rig.backend().freeze(&request.id).expect("freeze");
        seal(rig, &request);
        assert!(listed(rig, &request.id).is_some_and(|found| found.frozen), "it stays frozen");
        rig.backend().thaw(&request.id).expect("thaw");
        assert_answers(rig.backend(), &request.id);
        write(rig.backend(), &request.id, "/root/more", "more");
    }
    rig.backend().halt(&request.id).expect("halt");
    seal(rig, &request);
    let found = listed(rig, &request.id).expect("it is listed");
    assert!(!found.alive);
    create(rig, &CreateRequest { root: found.root, ..again(&request) });
    assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("work"));
}

fn one_that_is_at_work_is_not_sealed(rig: &mut dyn Rig) {
    let Some((_, true)) = layered(rig) else { return };
    let [running, writing] = [made(rig), made(rig)];
    write(rig.backend(), &running.id, "/root/kept", "work");
    spawn(rig.backend(), &running.id, &["sleep", "1000"]);
    write(rig.backend(), &writing.id, "/root/kept", "work");
    let file = open(rig.backend(), &writing.id, "/root/open");
    for request in [&running, &writing] {
        let (place, layered) = (rig.place(), rig.backend().layered().expect("layers"));
        let answer = layered.seal(&request.id, &place, request.root.trees()).expect("seal");
        assert!(matches!(answer, Sealed::Busy { .. }), "{answer:?}");
        assert!(!place.exists());
        assert_eq!(listed(rig, &request.id).expect("it is listed").root, request.root);
        assert_answers(rig.backend(), &request.id);
    }
    drop(file);
}

fn what_was_written_can_be_seen(rig: &mut dyn Rig) {
    let Some((layered, _)) = layered(rig) else { return };
    let request = made(rig);
    write(rig.backend(), &request.id, "/root/kept", "work");
    layered.writable(&request.id).expect("while it runs");
    rig.backend().halt(&request.id).expect("halt");
    layered.writable(&request.id).expect("while it rests");
}

fn only_what_was_halted_is_cleared(rig: &mut dyn Rig) {
    let Some((layered, _)) = layered(rig) else { return };
    let request = made(rig);
    write(rig.backend(), &request.id, "/root/kept", "work");
    assert_refused(layered.clear(&request.id), IsolationErrorKind::Invalid, "clear what runs");
    assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("work"));
    rig.backend().halt(&request.id).expect("halt");
    layered.clear(&request.id).expect("clear");
    layered.clear(&request.id).expect("clear again");
    create(rig, &again(&request));
    assert_eq!(read(rig.backend(), &request.id, "/root/kept"), None);
}

fn a_kill_while_one_is_sealed_leaves_it_sealed_or_not(rig: &mut dyn Rig) {
    let outlives = rig.backend().capabilities().outlives_server;
    let Some((_, true)) = layered(rig).filter(|_| outlives) else { return };
    for step in rig.steps(Deed::Seal) {
        let request = made(rig);
        write(rig.backend(), &request.id, "/root/kept", "work");
        rig.crash(&step, Deed::Seal, &request);
        assert!(rig.backend().settle(PATIENCE), "{step}");
        let found = listed(rig, &request.id).unwrap_or_else(|| panic!("{step}: it is lost"));
        assert!(found.alive && !found.frozen, "{step}: {found:?}");
        let sealed = depth(&found.root) > depth(&request.root);
        assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("work"), "{step}");
        write(rig.backend(), &request.id, "/root/next", "more");
        seal(rig, &request);
        let after = listed(rig, &request.id).expect("it is listed").root;
        assert!(depth(&after) > depth(&request.root) + usize::from(sealed), "{step}: it is sealed again");
        rig.backend().destroy(&request.id).expect("destroy");
        assert!(rig.backend().settle(PATIENCE), "{step}");
    }
}
