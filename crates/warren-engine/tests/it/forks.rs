//! Forks, what differs between them, and merging them back.

use std::collections::HashSet;

use warren_core::Field;
use warren_core::{
    Automatic, ChangeKind, Conflicts, DiffOptions, Event, IsolationErrorKind, LeaveOut, OnExpiry, SandboxId,
    SessionState, SnapshotReason, Status, TextDiff,
};
use warren_engine::{Engine, EngineError, Point, PromoteOrder, StoppedFiles};
use warren_testkit::Call;

use crate::support::*;
use crate::travel::*;

async fn quiet() -> (World, Engine, SandboxId) {
    let mut world = World::new();
    world.settings.automatic_snapshots = Automatic::Off;
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    (world, engine, id)
}

async fn fork_one(engine: &Engine, id: &SandboxId) -> SandboxId {
    let mut made = engine.of(&owner()).snapshots().fork(&Point::Sandbox(id.clone()), forks(1)).await.unwrap();
    made.remove(0).sandbox.id
}

fn promotion(apply: bool, conflicts: Conflicts) -> PromoteOrder {
    let leave_out = LeaveOut::default();
    PromoteOrder { into: None, apply, conflicts, below: "/".into(), force: false, leave_out }
}

#[tokio::test]
async fn forks_begin_alike_and_go_their_own_ways() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    let made = engine.of(&owner()).snapshots().fork(&Point::Sandbox(id.clone()), forks(5)).await.unwrap();
    let ids: HashSet<SandboxId> = made.iter().map(|fork| fork.sandbox.id.clone()).collect();
    let sessions: HashSet<_> = made.iter().map(|fork| fork.session.id.clone()).collect();
    assert_eq!((ids.len(), sessions.len()), (5, 5));
    for (number, fork) in made.iter().enumerate() {
        let fork = &fork.sandbox.id;
        assert_eq!(work(&engine, fork).await, "one");
        output(&engine, fork, &format!("write /root/work {number}")).await;
        let history = record(&engine, fork).await.history;
        assert_eq!((history.forked_from.as_ref(), &history.began), (Some(&id), &history.stack));
    }
    assert_eq!(work(&engine, &id).await, "one");
    for (number, fork) in made.iter().enumerate() {
        assert_eq!(work(&engine, &fork.sandbox.id).await, number.to_string());
        assert_eq!(state(&engine, &fork.session.id).await, SessionState::Active);
    }
    assert_eq!(layers(&world), 1, "they share everything");
    let events = all_events(&engine, &owner()).await;
    assert!(events.iter().any(|event| matches!(event.event, Event::SandboxForked { count: 5, .. })));
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_fork_takes_what_it_is_told_and_else_what_the_original_has() {
    let (_, engine, id) = quiet().await;
    let mut order = forks(1);
    order.lifetime_s = Some(600);
    order.on_expiry = Some(OnExpiry::Delete);
    order.labels.insert("role".to_owned(), "fork".to_owned());
    order.metadata.insert("note".to_owned(), "kept".to_owned());
    let fork = engine
        .of(&owner())
        .snapshots()
        .fork(&Point::Sandbox(id.clone()), order)
        .await
        .unwrap()
        .remove(0)
        .sandbox;
    assert_eq!((fork.spec.limits.lifetime_s, fork.on_expiry), (600, OnExpiry::Delete));
    assert_eq!(fork.spec.labels.get("role").map(String::as_str), Some("fork"));
    assert_eq!(fork.metadata.get("note").map(String::as_str), Some("kept"));
    assert_eq!(fork.history.automatic, Automatic::Off);
    for count in [0, 101] {
        let error = engine
            .of(&owner())
            .snapshots()
            .fork(&Point::Sandbox(id.clone()), forks(count))
            .await
            .unwrap_err();
        assert!(matches!(&error, EngineError::Invalid { field: Field::ForkCount, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn all_forks_are_made_or_none() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    world.isolation.fail_next(Call::Create, IsolationErrorKind::Exhausted);
    let error =
        engine.of(&owner()).snapshots().fork(&Point::Sandbox(id.clone()), forks(6)).await.unwrap_err();
    assert!(matches!(error, EngineError::StartFailed { .. }), "{error:?}");
    world.isolation.assert_only(std::slice::from_ref(&id));
    let live = all_sandboxes(&engine, &owner()).await.into_iter().filter(|record| record.is_live()).count();
    assert_eq!(live, 1);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn more_forks_than_may_live_are_refused_and_leave_nothing() {
    let mut world = World::new();
    world.settings.max_sandboxes = 3;
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let error =
        engine.of(&owner()).snapshots().fork(&Point::Sandbox(id.clone()), forks(3)).await.unwrap_err();
    assert!(matches!(error, EngineError::MaxSandboxes { .. }), "{error:?}");
    world.isolation.assert_only(&[id]);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_fork_outlives_its_original_and_the_snapshot_it_came_from() {
    let (world, engine, id) = quiet().await;
    let taken = write_and_snap(&engine, &id, "one").await;
    let fork = engine
        .of(&owner())
        .snapshots()
        .fork(&Point::Snapshot(taken.clone()), forks(1))
        .await
        .unwrap()
        .remove(0);
    let fork = fork.sandbox.id;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    engine.sweep().await;
    assert!(engine.of(&owner()).snapshots().get(&taken).await.is_ok(), "a fork comes from it");
    engine.of(&owner()).snapshots().delete(&taken).await.unwrap();
    engine.sweep().await;
    assert_eq!(work(&engine, &fork).await, "one");
    output(&engine, &fork, "write /root/work two").await;
    engine.of(&owner()).sandbox(&fork).history().undo(1, false).await.unwrap();
    assert_eq!(work(&engine, &fork).await, "one", "what it began with is its beginning now");
    engine.of(&owner()).sandbox(&fork).stop(StoppedFiles::Delete).await.unwrap();
    engine.sweep().await;
    assert_eq!(layers(&world), 0);
}

#[tokio::test]
async fn a_fork_of_a_fork_of_a_stopped_sandbox() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    let mut last = fork_one(&engine, &id).await;
    for number in 0..5 {
        output(&engine, &last, &format!("write /root/{number} there")).await;
        last = fork_one(&engine, &last).await;
    }
    for number in 0..5 {
        assert_eq!(output(&engine, &last, &format!("read /root/{number}")).await, "there");
    }
    assert_eq!(work(&engine, &last).await, "one");
    assert_eq!(status(&engine, &id).await, Status::Stopped);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_diff_tells_what_was_added_changed_and_removed() {
    let (_, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    output(&engine, &id, "write /root/gone one").await;
    let from = snap(&engine, &id).await.snapshot.id;
    output(&engine, &id, "write /root/work two").await;
    output(&engine, &id, "write /root/new two").await;
    let call = warren_wire::guest::FileCall {
        user: None,
        operation: warren_wire::guest::FileOperation::Remove { path: "/root/gone".into(), recursive: false },
        as_root: None,
    };
    engine.of(&owner()).sandbox(&id).files().call(call).await.unwrap();
    let options = DiffOptions { text: true, ..DiffOptions::default() };
    let (from, to) = (Point::Snapshot(from), Point::Sandbox(id.clone()));
    let diff = engine.of(&owner()).snapshots().diff(&from, &to, options.clone()).await.unwrap();
    let kind = |path: &str| {
        diff.changes.iter().find(|change| change.path.to_str() == Some(path)).map(warren_core::Change::kind)
    };
    assert_eq!(kind("/root/work"), Some(ChangeKind::Changed));
    assert_eq!(kind("/root/new"), Some(ChangeKind::Added));
    assert_eq!(kind("/root/gone"), Some(ChangeKind::Removed));
    let text = diff.changes.iter().find(|change| change.path.ends_with("work")).unwrap().text.clone();
    assert!(matches!(text, Some(TextDiff::Unified(_))), "{text:?}");
    let none = engine.of(&owner()).snapshots().diff(&to, &to, options).await.unwrap();
    assert!(none.changes.is_empty());
}

#[tokio::test]
async fn a_diff_of_a_fresh_sandbox_with_itself_writes_nothing_down() {
    let (_, engine, id) = quiet().await;
    let point = Point::Sandbox(id.clone());
    let diff = engine.of(&owner()).snapshots().diff(&point, &point, DiffOptions::default()).await.unwrap();
    assert!(diff.changes.is_empty() && snapshots_of(&engine, &owner(), &id).await.is_empty());
}

#[tokio::test]
async fn a_forks_changes_are_told_and_then_merged() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    let fork = fork_one(&engine, &id).await;
    output(&engine, &fork, "write /root/theirs fork").await;
    output(&engine, &id, "write /root/ours original").await;
    let told = engine
        .of(&owner())
        .sandbox(&fork)
        .history()
        .promote(promotion(false, Conflicts::Refuse))
        .await
        .unwrap();
    assert_eq!(
        (told.into.clone(), told.applied.is_none(), told.merge.conflicts.len()),
        (id.clone(), true, 0)
    );
    assert!(told.merge.changes.iter().any(|change| change.path.ends_with("theirs")));
    assert_ne!(exec(&engine, &id, "read /root/theirs").await.unwrap().exit.code, 0, "it is only told");
    let done = engine
        .of(&owner())
        .sandbox(&fork)
        .history()
        .promote(promotion(true, Conflicts::Refuse))
        .await
        .unwrap();
    let applied = done.applied.expect("it was applied");
    assert_eq!(applied.to.reason, SnapshotReason::Promote);
    assert_eq!(output(&engine, &id, "read /root/theirs").await, "fork");
    assert_eq!(output(&engine, &id, "read /root/ours").await, "original");
    engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_ne!(
        exec(&engine, &id, "read /root/theirs").await.unwrap().exit.code,
        0,
        "and it can be taken back"
    );
    let events = all_events(&engine, &owner()).await;
    assert!(events.iter().any(|event| matches!(event.event, Event::SandboxPromoted { .. })));
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn only_what_is_below_a_path_is_merged_and_the_rest_may_follow() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work base").await;
    let fork = fork_one(&engine, &id).await;
    output(&engine, &fork, "write /root/work theirs").await;
    output(&engine, &fork, "write /srv/a fork").await;
    output(&engine, &id, "write /root/work ours").await;
    let history = engine.of(&owner()).sandbox(&fork).history();
    for below in ["srv", "/srv/../root"] {
        let order = PromoteOrder { below: below.into(), ..promotion(true, Conflicts::Refuse) };
        let error = history.promote(order).await.unwrap_err();
        assert!(matches!(&error, EngineError::Invalid { field: Field::Path, .. }), "{error:?}");
    }
    let order = PromoteOrder { below: "/srv".into(), ..promotion(true, Conflicts::Refuse) };
    let done = history.promote(order).await.unwrap();
    assert_eq!(done.applied.unwrap().to.reason, SnapshotReason::Promote);
    assert_eq!(output(&engine, &id, "read /srv/a").await, "fork");
    assert_eq!(work(&engine, &id).await, "ours", "what is elsewhere stays, and is no conflict");
    let rest = history.promote(promotion(true, Conflicts::Refuse)).await.unwrap_err();
    assert!(matches!(rest, EngineError::MergeConflict { .. }), "{rest:?}");
    history.promote(promotion(true, Conflicts::Theirs)).await.unwrap();
    assert_eq!(work(&engine, &id).await, "theirs");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn conflicts_are_listed_and_settled_as_asked() {
    for (conflicts, expected) in [(Conflicts::Ours, "ours"), (Conflicts::Theirs, "theirs")] {
        let (world, engine, id) = quiet().await;
        output(&engine, &id, "write /root/work base").await;
        let fork = fork_one(&engine, &id).await;
        output(&engine, &fork, "write /root/work theirs").await;
        output(&engine, &id, "write /root/work ours").await;
        let error = engine
            .of(&owner())
            .sandbox(&fork)
            .history()
            .promote(promotion(true, Conflicts::Refuse))
            .await
            .unwrap_err();
        let EngineError::MergeConflict { into, conflicts: listed } = error else { panic!("{error:?}") };
        assert_eq!((into, listed.len()), (id.clone(), 1));
        assert_eq!(listed[0].path.to_str(), Some("/root/work"));
        assert_eq!(work(&engine, &id).await, "ours", "nothing was merged");
        engine.of(&owner()).sandbox(&fork).history().promote(promotion(true, conflicts)).await.unwrap();
        assert_eq!(work(&engine, &id).await, expected);
        assert_consistent(&world, &engine).await;
    }
}

#[tokio::test]
async fn only_relatives_can_be_merged() {
    let (_, engine, id) = quiet().await;
    let error = engine
        .of(&owner())
        .sandbox(&id)
        .history()
        .promote(promotion(true, Conflicts::Refuse))
        .await
        .unwrap_err();
    assert!(matches!(&error, EngineError::Invalid { field: Field::MergeTarget, .. }), "{error:?}");
    let other = make(&engine).await.sandbox.id;
    write_and_snap(&engine, &id, "one").await;
    write_and_snap(&engine, &other, "two").await;
    for into in [other, id.clone()] {
        let order = PromoteOrder { into: Some(into), ..promotion(true, Conflicts::Theirs) };
        let error = engine.of(&owner()).sandbox(&id).history().promote(order).await.unwrap_err();
        assert!(matches!(&error, EngineError::Invalid { field: Field::MergeTarget, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn siblings_are_merged_over_their_common_ancestor() {
    let (_, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work base").await;
    let both = engine.of(&owner()).snapshots().fork(&Point::Sandbox(id), forks(2)).await.unwrap();
    let (one, two) = (both[0].sandbox.id.clone(), both[1].sandbox.id.clone());
    output(&engine, &one, "write /root/one there").await;
    output(&engine, &two, "write /root/two there").await;
    let order = PromoteOrder { into: Some(two.clone()), ..promotion(true, Conflicts::Refuse) };
    engine.of(&owner()).sandbox(&one).history().promote(order).await.unwrap();
    assert_eq!(output(&engine, &two, "read /root/one").await, "there");
    assert_eq!(output(&engine, &two, "read /root/two").await, "there");
}

#[tokio::test]
async fn an_ended_session_leaves_a_snapshot_to_go_on_from() {
    let (world, engine, _) = quiet().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    output(&engine, &id, "write /root/work one").await;
    let ended = engine.of(&owner()).session(&made.session.id).end().await.unwrap();
    assert_eq!(ended.session.state, SessionState::Released);
    let snapshot = ended.taken.snapshot;
    assert!(snapshot.durable && snapshot.reason == SnapshotReason::End, "{snapshot:?}");
    assert_eq!(snapshot.session.as_ref(), Some(&made.session.id));
    let stopped = record(&engine, &id).await;
    assert!(stopped.status == Status::Stopped && stopped.files_kept());
    assert_eq!(stopped.death.unwrap().snapshot.as_deref(), Some(snapshot.id.as_str()));
    let again = engine.of(&owner()).session(&made.session.id).end().await.unwrap();
    assert_eq!(again.taken.snapshot.id, snapshot.id, "to end it twice is no error");
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    engine.sweep().await;
    let mut request = acquire();
    request.sandbox.from = Some(snapshot.id);
    let next = engine.of(&owner()).sessions().acquire(request).await.unwrap();
    assert_eq!(work(&engine, &next.sandbox.id).await, "one");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_shared_sandbox_goes_on_when_one_of_its_sessions_is_ended() {
    let (_, engine, _) = quiet().await;
    let made = make(&engine).await;
    engine.of(&owner()).sessions().attach(attach(&made.sandbox.id)).await.unwrap();
    engine.of(&owner()).session(&made.session.id).end().await.unwrap();
    assert_eq!(status(&engine, &made.sandbox.id).await, Status::Ready);
}
