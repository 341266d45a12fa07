//! Export, import and templates of snapshots.

use std::io::Read;

use warren_core::Field;
use warren_core::{
    Automatic, ImportFormat, LayerErrorKind, LeaveOut, SandboxId, SnapshotReason, TemplateErrorKind,
};
use warren_engine::{Engine, EngineError, ExportOrder, Point};

use crate::support::*;
use crate::travel::*;

async fn quiet() -> (World, Engine, SandboxId) {
    let mut world = World::new();
    world.settings.automatic_snapshots = Automatic::Off;
    world.isolation.layers().publish_templates(&world.templates);
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    (world, engine, id)
}

async fn exported(engine: &Engine, what: &Point, order: ExportOrder) -> Result<Vec<u8>, EngineError> {
    let sink = Sink::default();
    engine.of(&owner()).snapshots().export(what, order, Box::new(sink.clone())).await?;
    Ok(sink.take())
}

fn source(bytes: Vec<u8>) -> Box<dyn Read + Send> {
    Box::new(std::io::Cursor::new(bytes))
}

#[tokio::test]
async fn a_history_comes_back_whole_on_another_machine() {
    let (_, engine, id) = quiet().await;
    write_and_snap(&engine, &id, "one").await;
    output(&engine, &id, "write /root/work two").await;
    let last = named(&engine, &id, "last").await.unwrap().snapshot.id;
    let archive = exported(&engine, &Point::Snapshot(last), ExportOrder::History).await.unwrap();
    let (world, elsewhere, _) = quiet().await;
    let rows = elsewhere
        .of(&owner())
        .snapshots()
        .import(ImportFormat::History, None, None, source(archive.clone()))
        .await
        .unwrap();
    assert_eq!(rows.len(), 3, "with its beginning");
    assert!(rows.iter().all(|row| row.reason == SnapshotReason::Import && row.durable));
    assert_eq!(rows[2].parent.as_ref(), Some(&rows[1].id));
    assert_eq!(rows[2].name.as_deref(), Some("last"));
    elsewhere.sweep().await;
    for (row, text) in rows[1..].iter().zip(["one", "two"]) {
        let fork = elsewhere
            .of(&owner())
            .snapshots()
            .fork(&Point::Snapshot(row.id.clone()), forks(1))
            .await
            .unwrap();
        assert_eq!(work(&elsewhere, &fork[0].sandbox.id).await, text);
    }
    let snapshots = elsewhere.of(&owner()).snapshots();
    let again = snapshots.import(ImportFormat::History, None, Some("twice".to_owned()), source(archive));
    assert_eq!(again.await.unwrap()[2].name.as_deref(), Some("twice"));
    assert_consistent(&world, &elsewhere).await;
}

#[tokio::test]
async fn a_tar_file_needs_a_template() {
    let (_, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    let tar = ExportOrder::Tar { below: "/".into() };
    let archive = exported(&engine, &Point::Sandbox(id.clone()), tar).await.unwrap();
    let snapshots = engine.of(&owner()).snapshots();
    let import = |template: Option<&str>| {
        let template = template.map(|name| name.parse().unwrap());
        snapshots.import(ImportFormat::Tar, template, Some("base".to_owned()), source(archive.clone()))
    };
    let error = import(None).await.unwrap_err();
    assert!(matches!(&error, EngineError::Invalid { field: Field::Template, .. }), "{error:?}");
    let error = import(Some("unknown")).await.unwrap_err();
    assert!(matches!(&error, EngineError::Template(source) if source.kind == TemplateErrorKind::NotFound));
    let rows = import(Some("host")).await.unwrap();
    let fork =
        engine.of(&owner()).snapshots().fork(&Point::Snapshot(rows[0].id.clone()), forks(1)).await.unwrap();
    assert_eq!(work(&engine, &fork[0].sandbox.id).await, "one");
}

#[tokio::test]
async fn what_is_no_archive_leaves_nothing() {
    let (world, engine, _) = quiet().await;
    let snapshots = engine.of(&owner()).snapshots();
    let import = snapshots.import(ImportFormat::History, None, None, source(b"rubbish".to_vec()));
    let error = import.await.unwrap_err();
    assert!(
        matches!(&error, EngineError::Layers(source) if source.kind == LayerErrorKind::Invalid),
        "{error:?}"
    );
    assert_eq!(layers(&world), 0);
}

#[tokio::test]
async fn a_patch_tells_what_changed_since() {
    let (_, engine, id) = quiet().await;
    let since = Point::Snapshot(write_and_snap(&engine, &id, "one").await);
    output(&engine, &id, "write /root/work two").await;
    let order = ExportOrder::Patch { since, below: "/root".into(), leave_out: LeaveOut::default() };
    let patch = exported(&engine, &Point::Sandbox(id), order).await.unwrap();
    assert!(String::from_utf8_lossy(&patch).contains("two"), "{}", String::from_utf8_lossy(&patch));
}

#[tokio::test]
async fn a_template_of_a_snapshot_begins_with_its_state() {
    let (_, engine, id) = quiet().await;
    let taken = write_and_snap(&engine, &id, "one").await;
    let name = "worked".parse().unwrap();
    engine.of(&owner()).snapshots().make_template(&taken, &name).await.unwrap();
    let mut request = acquire();
    request.sandbox.spec.template = name;
    let made = engine.of(&owner()).sessions().acquire(request).await.unwrap();
    assert_eq!(work(&engine, &made.sandbox.id).await, "one");
    assert_eq!(made.sandbox.history.stack.depth(), 0);
}

#[tokio::test]
async fn a_template_that_a_snapshot_stands_on_is_in_use() {
    let (world, engine, _) = quiet().await;
    world.templates.add("base", None);
    let mut request = acquire();
    request.sandbox.spec.template = "base".parse().unwrap();
    let id = engine.of(&owner()).sessions().acquire(request).await.unwrap().sandbox.id;
    let kept = named(&engine, &id, "kept").await.unwrap().snapshot.id;
    engine.of(&owner()).sandbox(&id).stop(warren_engine::StoppedFiles::Delete).await.unwrap();
    let error = engine.remove_template(&"base".parse().unwrap()).await.unwrap_err();
    assert!(
        matches!(&error, EngineError::Template(source) if source.kind == TemplateErrorKind::InUse),
        "{error:?}"
    );
    engine.of(&owner()).snapshots().delete(&kept).await.unwrap();
    for row in snapshots_of(&engine, &owner(), &id).await {
        engine.of(&owner()).snapshots().delete(&row.id).await.unwrap();
    }
    engine.remove_template(&"base".parse().unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_sandbox_cannot_begin_with_a_snapshot_of_another_template() {
    let (world, engine, id) = quiet().await;
    let taken = write_and_snap(&engine, &id, "one").await;
    world.templates.add("other", None);
    let mut request = acquire();
    request.sandbox.spec.template = "other".parse().unwrap();
    request.sandbox.from = Some(taken);
    let error = engine.of(&owner()).sessions().acquire(request).await.unwrap_err();
    assert!(matches!(&error, EngineError::Invalid { field: Field::Template, .. }), "{error:?}");
}
