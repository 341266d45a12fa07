//! Images: built, found, changed, and cleared away after a crash.

use warren_core::catalog::{CatalogErrorKind, ImageCatalog as _, NodeCatalog as _, SandboxCatalog as _};
use warren_core::{
    BuildFailure, BuildId, BuildOutcome, BuildStep, CopyFiles, FilesHash, ImageRecord, ImageRef, SandboxId,
    SnapshotId, StartCommands, TemplateName,
};
use warren_engine::{
    Acquire, Beginning, Engine, ImageError, LogLevel, NewBuild, NewSandbox, Recipe, RecipeStep, StoppedFiles,
    TakeSnapshot, Unbuilt, WantedLines,
};

use crate::support::*;

pub(crate) fn run(command: &str) -> RecipeStep {
    RecipeStep { step: BuildStep::Run { command: command.to_owned(), user: None }, force: false }
}

pub(crate) fn recipe(steps: Vec<RecipeStep>) -> Recipe {
    let base = Beginning::of_template(TemplateName::host());
    Recipe { base, pull: None, user: Some("user".to_owned()), steps, start: None, force: false }
}

pub(crate) fn named(text: &str) -> ImageRef {
    text.parse().unwrap()
}

fn new_build(name: &str) -> NewBuild {
    NewBuild { name: name.to_owned(), tags: Vec::new(), cpus: None, memory: None }
}

/// Begins with a build of an image.
pub(crate) async fn begin(engine: &Engine, name: &str, recipe: Recipe) -> Result<BuildId, ImageError> {
    let images = engine.of(&owner()).images();
    let (_, build) = images.announce(new_build(name)).await?;
    images.begin(name, &build, recipe).await?;
    Ok(build)
}

pub(crate) async fn image(engine: &Engine, name: &str) -> ImageRecord {
    engine.of(&owner()).images().get(name).await.unwrap()
}

/// Waits for the end of a build.
pub(crate) async fn outcome(engine: &Engine, name: &str, build: &BuildId) -> BuildOutcome {
    let outcome = async || image(engine, name).await.builds.remove(build).map(|build| build.outcome);
    eventually("the build ends", async || !matches!(outcome().await, Some(BuildOutcome::Begun { .. }))).await;
    outcome().await.unwrap()
}

async fn build(engine: &Engine, name: &str, recipe: Recipe) -> BuildId {
    let build = begin(engine, name, recipe).await.unwrap();
    let outcome = outcome(engine, name, &build).await;
    assert!(matches!(outcome, BuildOutcome::Ready(_)), "{outcome:?}");
    build
}

async fn fails(engine: &Engine, name: &str, recipe: Recipe) -> BuildFailure {
    let build = begin(engine, name, recipe).await.unwrap();
    match outcome(engine, name, &build).await {
        BuildOutcome::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

/// A sandbox that begins with an image.
pub(crate) async fn sandbox_of(engine: &Engine, name: &str) -> SandboxId {
    let found = engine.of(&owner()).images().find(&named(name)).await.unwrap().expect("an image");
    let Beginning { context, from, start } = found.beginning;
    let mut new = new_sandbox();
    new.spec.template = context.template;
    new.spec.env = context.env;
    let new = NewSandbox { from, start, ..new };
    let request = Acquire { fresh: true, ..Acquire::new("tester", new) };
    engine.of(&owner()).sessions().acquire(request).await.unwrap().sandbox.id
}

fn messages(engine: &Engine, build: &BuildId) -> Vec<String> {
    let log = engine.of(&owner()).images().log(build).expect("a log");
    let all = WantedLines { offset: 0, limit: usize::MAX, least: LogLevel::Debug };
    log.lines(all).into_iter().map(|line| line.message).collect()
}

fn cached(engine: &Engine, build: &BuildId) -> usize {
    messages(engine, build).iter().filter(|line| line.starts_with("CACHED")).count()
}

fn snapshots(world: &World) -> Vec<SnapshotId> {
    world.catalog.snapshots_of_images(world.catalog.node()).unwrap().into_iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn a_build_does_its_steps_and_its_image_begins_where_they_ended() {
    let world = World::new();
    let engine = world.open().await;
    let hash: FilesHash = "ab".repeat(32).parse().unwrap();
    let images = engine.of(&owner()).images();
    assert!(!images.has_files(&hash).await);
    images.keep_files(&hash, b"the files".as_slice()).await.unwrap();
    assert!(images.has_files(&hash).await);
    let copy = CopyFiles {
        source: "src".to_owned(),
        target: "data".to_owned(),
        owner: None,
        mode: None,
        hash: hash.clone(),
    };
    let pairs = [("COLOUR", "red"), ("BOTH", "dark-$COLOUR")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let step = |step| RecipeStep { step, force: false };
    let steps = vec![
        step(BuildStep::Env(pairs.to_vec())),
        step(BuildStep::Workdir("/srv".to_owned())),
        step(BuildStep::Copy(copy)),
        step(BuildStep::User { name: "bob".to_owned(), sudo: false }),
        run("echo it works"),
    ];
    let start = StartCommands::new(Some("listen 8000".to_owned()), Some("true".to_owned()));
    let built = build(&engine, "app", Recipe { start: start.clone(), ..recipe(steps) }).await;
    assert!(messages(&engine, &built).contains(&"it works".to_owned()));
    let found = images.find(&named("app")).await.unwrap().unwrap().beginning;
    assert_eq!((found.start, found.context.user.as_deref()), (start, Some("bob")));
    assert_eq!(found.context.workdir.as_deref(), Some(std::path::Path::new("/srv")));
    let id = sandbox_of(&engine, "app:default").await;
    assert_eq!(output(&engine, &id, "read /srv/data").await, "the files");
    assert!(output(&engine, &id, "env").await.contains("BOTH=dark-red\n"));
    images.start(&record(&engine, &id).await).await.unwrap();
    let processes = format!("{:?}", engine.of(&owner()).sandbox(&id).processes().list().await.unwrap());
    assert!(processes.contains("listen 8000"), "{processes}");
    assert!(images.find(&named("nobody-has-it")).await.unwrap().is_none());
    let tag = images.find(&named("app:v2")).await.unwrap_err();
    assert!(matches!(tag, ImageError::NotBuilt { why: Unbuilt::NoSuchTag, .. }), "{tag:?}");
    let stranger = engine.of(&stranger()).images();
    assert!(stranger.find(&named("app")).await.unwrap().is_none());
    assert!(matches!(stranger.find(&named("default/app")).await, Err(ImageError::NotFound { .. })));
}

#[tokio::test]
async fn steps_that_were_done_before_are_not_done_again() {
    let world = World::new();
    let engine = world.open().await;
    let steps = vec![run("write /a 1"), run("write /b 2")];
    let first = build(&engine, "one", recipe(steps.clone())).await;
    assert_eq!(cached(&engine, &first), 0);
    let longer = vec![steps[0].clone(), steps[1].clone(), run("write /c 3")];
    let second = build(&engine, "two", recipe(longer)).await;
    assert_eq!(cached(&engine, &second), 2);
    let id = sandbox_of(&engine, "two").await;
    assert_eq!(output(&engine, &id, "read /a").await + &output(&engine, &id, "read /c").await, "13");
    let forced = vec![steps[0].clone(), RecipeStep { force: true, ..steps[1].clone() }];
    assert_eq!(cached(&engine, &build(&engine, "three", recipe(forced)).await), 1);
    let anew = Recipe { force: true, ..recipe(steps.clone()) };
    assert_eq!(cached(&engine, &build(&engine, "four", anew).await), 0);
    // A state that is gone is made again.
    for step in world.catalog.kept_steps(&owner()).unwrap() {
        engine.of(&owner()).snapshots().delete(&step.snapshot).await.unwrap();
    }
    assert_eq!(cached(&engine, &build(&engine, "five", recipe(steps)).await), 0);
}

#[tokio::test]
async fn a_build_that_fails_names_its_step_and_leaves_nothing() {
    let world = World::new();
    let engine = world.open().await;
    let failure = fails(&engine, "app", recipe(vec![run("true"), run("fail")])).await;
    assert_eq!((failure.step.as_str(), failure.unknown_user), ("2", None));
    assert_eq!(failure.message, "failed to run command 'fail': exit status 3");
    let hash = "cd".repeat(32).parse().unwrap();
    let (source, target) = ("a".to_owned(), "b".to_owned());
    let copy = BuildStep::Copy(CopyFiles { source, target, owner: None, mode: None, hash });
    let failure = fails(&engine, "app", recipe(vec![RecipeStep { step: copy, force: false }])).await;
    assert!(failure.message.contains("send them again"), "{failure:?}");
    world.isolation.assert_only(&[]);
    assert_eq!(snapshots(&world).len(), 1, "the state after the first step");
    let wrong = begin(&engine, "app", recipe(vec![run("a\0b")])).await.unwrap_err();
    assert!(matches!(wrong, ImageError::Step { index: 0, .. }), "{wrong:?}");
    let error = engine.of(&owner()).images().find(&named("app")).await.unwrap_err();
    assert!(
        matches!(error, ImageError::NotBuilt { why: Unbuilt::Failed(_) | Unbuilt::NotYet, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_image_that_is_deleted_takes_its_build_and_its_snapshots_along() {
    let world = World::new();
    let engine = world.open().await;
    build(&engine, "app", recipe(Vec::new())).await;
    let running = begin(&engine, "app", recipe(vec![run("sleep 1"), run("write /never 1")])).await.unwrap();
    let step = "[1/2] RUN sleep 1".to_owned();
    eventually("the step runs", async || messages(&engine, &running).contains(&step)).await;
    engine.of(&owner()).images().remove(&named("app")).await.unwrap();
    eventually("the build ends", async || {
        messages(&engine, &running).contains(&"the image was deleted".to_owned())
    })
    .await;
    let kept = world.catalog.kept_steps(&owner()).unwrap().len();
    eventually("its snapshots are gone", async || snapshots(&world).len() == kept).await;
    assert!(matches!(engine.of(&owner()).images().get("app").await, Err(ImageError::NotFound { .. })));
}

#[tokio::test]
async fn a_sandbox_becomes_an_image_that_outlives_it() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    output(&engine, &id, "write /work done").await;
    let images = engine.of(&owner()).images();
    let captured = images.capture(&id, Some(named("saved:v1"))).await.unwrap();
    assert_eq!((captured.name.as_deref(), captured.tag.as_str()), (Some("saved"), "v1"));
    let unnamed = images.capture(&id, None).await.unwrap();
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    for name in ["saved:v1".to_owned(), unnamed.image.to_string()] {
        let begun = sandbox_of(&engine, &name).await;
        assert_eq!(output(&engine, &begun, "read /work").await, "done");
    }
    images.remove(&named("saved:v1")).await.unwrap();
    assert_eq!(images.list().await.unwrap().len(), 1);
    eventually("its snapshot is gone", async || snapshots(&world) == [unnamed.taken.snapshot.id.clone()])
        .await;
}

#[tokio::test]
async fn changes_of_one_image_at_the_same_time_all_hold() {
    let world = World::new();
    let engine = world.open().await;
    let built = build(&engine, "app", recipe(Vec::new())).await;
    let images = engine.of(&owner()).images();
    let target = named("app");
    let tags = (0..20).map(|number| images.tag(&target, vec![format!("t{number}")]));
    for tagged in futures_util::future::join_all(tags).await {
        assert_eq!(tagged.unwrap(), built);
    }
    assert_eq!(image(&engine, "app").await.tags.len(), 21);
    images.untag("app", vec!["t1".to_owned(), "t2".to_owned()]).await.unwrap();
    assert_eq!(image(&engine, "app").await.tags.len(), 19);
    let announced = (0..5).map(|_| images.announce(new_build("fresh")));
    let ids: Vec<_> =
        futures_util::future::join_all(announced).await.into_iter().map(|new| new.unwrap().0).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "a name has one image");
}

#[tokio::test]
async fn an_owner_has_a_bounded_room_for_images() {
    let world = World::new();
    let engine = world.open().await;
    let images = engine.of(&owner()).images();
    let huge = NewBuild { tags: vec!["x".repeat(17 << 20)], ..new_build("app") };
    assert!(matches!(images.announce(huge).await, Err(ImageError::NoRoom)));
    assert!(images.list().await.unwrap().is_empty(), "a change that cannot be written did not happen");
    for number in 0..1000 {
        images.announce(new_build(&format!("app-{number}"))).await.unwrap();
    }
    assert!(matches!(images.announce(new_build("more")).await, Err(ImageError::TooMany { .. })));
}

/// The remains of a process that is killed while it builds: see also `crashes`.
async fn remains(world: &World, engine: &Engine) -> (SnapshotId, SnapshotId, SandboxId) {
    let id = make(engine).await.sandbox.id;
    let images = engine.of(&owner()).images();
    let kept = images.capture(&id, Some(named("saved"))).await.unwrap().taken.snapshot.id;
    // A name that looks alike is nobody's business.
    let take = TakeSnapshot { name: Some("image of mine".to_owned()), ..TakeSnapshot::default() };
    let own = engine.of(&owner()).sandbox(&id).history().take(take).await.unwrap().snapshot.id;
    world.catalog.fail_next_call("insert_image", CatalogErrorKind::Full);
    images.capture(&id, Some(named("lost"))).await.unwrap_err();
    let build = begin(engine, "app", recipe(vec![run("sleep 1000")])).await.unwrap();
    let step = "[1/1] RUN sleep 1000".to_owned();
    eventually("its step runs", async || messages(engine, &build).contains(&step)).await;
    let all = world.catalog.unfinished_sandboxes(world.catalog.node()).unwrap();
    let building = all.into_iter().find(|record| record.build.is_some()).map(|record| record.id);
    (kept, own, building.unwrap())
}

#[tokio::test]
async fn what_an_earlier_process_left_of_its_builds_is_cleared_away() {
    let world = World::new();
    let engine = world.open().await;
    let (kept, own, building) = remains(&world, &engine).await;
    drop(engine);
    let engine = world.open().await;
    assert_eq!(snapshots(&world), [kept]);
    engine.of(&owner()).snapshots().get(&own).await.unwrap();
    assert!(!record(&engine, &building).await.is_live());
    let newest = image(&engine, "app").await.newest().unwrap().1.outcome.clone();
    let BuildOutcome::Failed(failure) = newest else { panic!("{newest:?}") };
    assert_eq!(failure.message, "the server stopped while it was built: build it again");
    sandbox_of(&engine, "saved").await;
}

#[tokio::test]
async fn images_that_cannot_be_read_lose_nothing() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let taken =
        engine.of(&owner()).images().capture(&id, Some(named("saved"))).await.unwrap().taken.snapshot.id;
    drop(engine);
    world.catalog.fail_next_call("images", CatalogErrorKind::Damaged);
    let engine = world.open().await;
    assert_eq!(snapshots(&world), [taken]);
    sandbox_of(&engine, "saved").await;
}

#[tokio::test]
async fn the_image_that_a_build_begins_with_is_pulled_first() {
    let world = World::new();
    let engine = world.open().await;
    let of = |image: &str| Recipe { pull: Some(image.parse().unwrap()), ..recipe(vec![run("echo made")]) };
    let built = build(&engine, "app", of("open.example/tools:2")).await;
    assert!(messages(&engine, &built).contains(&"Pulling open.example/tools:2".to_owned()));
    let found = engine.of(&owner()).images().find(&named("app")).await.unwrap().unwrap();
    assert_eq!(found.beginning.context.template.as_str(), "open.example-tools-2");
    let again = build(&engine, "again", of("open.example/tools:2")).await;
    assert_eq!(cached(&engine, &again), 1);
    let failure = fails(&engine, "closed", of("closed.example/tools")).await;
    assert!(failure.message.contains("closed.example/tools") && failure.step == "base", "{failure:?}");
}
