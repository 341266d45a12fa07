use super::*;

fn snapshot(number: u8) -> SnapshotId {
    SnapshotId::from_random([number; 16])
}

fn id(number: u8) -> BuildId {
    BuildId::from_random([number; 16])
}

fn node() -> NodeId {
    NodeId::from_random([7; 16])
}

fn built(number: u8) -> Built {
    let env = [("A".to_owned(), "1".to_owned())].into();
    let user = Some("user".to_owned());
    Built {
        snapshot: snapshot(number),
        sandbox: SandboxId::from_random([number; 16]),
        context: ImageContext { template: TemplateName::host(), env, user, workdir: None },
        start: StartCommands::new(Some("serve".to_owned()), None),
    }
}

fn ready(number: u8) -> BuildOutcome {
    BuildOutcome::Ready(Box::new(built(number)))
}

fn texts(tags: &[&str]) -> Vec<String> {
    tags.iter().map(|tag| (*tag).to_owned()).collect()
}

fn image() -> ImageRecord {
    let owner = "ann".parse().unwrap();
    ImageRecord::new(ImageId::from_random([1; 16]), owner, Some("app".to_owned()), ImageOrigin::Steps, 0)
}

fn snapshot_of(image: &ImageRecord, tag: &str) -> Option<SnapshotId> {
    Some(image.built(tag)?.snapshot.clone())
}

fn build(image: &mut ImageRecord, number: u8, tags: &[&str]) {
    image.announce(id(number), texts(tags), u64::from(number));
    image.begin(&id(number), &node()).unwrap();
    image.finish(&id(number), ready(number), 9).unwrap();
}

#[test]
fn a_build_is_found_once_it_is_ready() {
    let mut image = image();
    image.announce(id(1), texts(&["default", "v1"]), 1);
    assert_eq!(snapshot_of(&image, "default"), None);
    image.begin(&id(1), &node()).unwrap();
    assert_eq!(image.begin(&id(1), &node()), Err(ImageDenied::Begun { build: id(1) }));
    assert!(image.is_building());
    image.finish(&id(1), ready(1), 5).unwrap();
    for tag in ["default", "v1", id(1).as_str()] {
        assert_eq!(snapshot_of(&image, tag), Some(snapshot(1)), "{tag}");
    }
    assert_eq!((snapshot_of(&image, "v2"), image.is_building()), (None, false));
}

#[test]
fn a_build_that_no_tag_names_is_forgotten_with_its_snapshot() {
    let mut image = image();
    build(&mut image, 1, &["default", "v1"]);
    build(&mut image, 2, &["default"]);
    assert_eq!(snapshot_of(&image, "default"), Some(snapshot(2)));
    assert_eq!(snapshot_of(&image, "v1"), Some(snapshot(1)));
    assert_eq!(image.snapshots().len(), 2);
    build(&mut image, 3, &["v1"]);
    assert_eq!(image.snapshots(), [&snapshot(2), &snapshot(3)].into());
    assert_eq!(image.build_count, 3);
}

#[test]
fn a_failed_build_changes_no_tag() {
    let mut image = image();
    build(&mut image, 1, &["default"]);
    image.announce(id(2), texts(&["default"]), 2);
    image.begin(&id(2), &node()).unwrap();
    let failure = BuildFailure { message: "no".to_owned(), step: "1".to_owned(), unknown_user: None };
    let failed = BuildOutcome::Failed(failure);
    image.finish(&id(2), failed.clone(), 9).unwrap();
    assert_eq!(snapshot_of(&image, "default"), Some(snapshot(1)));
    assert_eq!(image.builds[&id(2)].outcome, failed);
    assert!(matches!(image.finish(&id(3), failed, 9), Err(ImageDenied::NoBuild { .. })));
}

#[test]
fn only_the_newest_of_the_builds_that_came_to_nothing_are_remembered() {
    let mut image = image();
    for number in 0..30 {
        image.announce(id(number), texts(&["default"]), u64::from(number));
    }
    assert_eq!(image.builds.len(), MOST_UNTAGGED);
    assert_eq!(image.newest().unwrap().0, &id(29));
    assert!(image.builds.contains_key(&id(20)));
}

#[test]
fn tags_are_put_and_taken_away() {
    let mut image = image();
    build(&mut image, 1, &["default"]);
    let tags = texts(&["stable", "v1"]);
    assert_eq!(image.tag("default", &tags, 3), Ok(id(1)));
    assert_eq!(image.tag(id(1).as_str(), &tags, 3), Ok(id(1)));
    assert!(matches!(image.tag("none", &tags, 3), Err(ImageDenied::NotReady { .. })));
    assert!(matches!(image.untag(&texts(&["none"]), 4), Err(ImageDenied::NoTag { .. })));
    image.untag(&texts(&["default", "v1"]), 4).unwrap();
    assert_eq!(snapshot_of(&image, "stable"), Some(snapshot(1)));
    assert_eq!(snapshot_of(&image, "default"), None);
    let many: Vec<String> = (0..=MOST_TAGS).map(|number| format!("t{number}")).collect();
    assert_eq!(image.tag("stable", &many, 5), Err(ImageDenied::TooManyTags));
}

#[test]
fn the_state_of_a_sandbox_is_one_more_build() {
    let mut image = image();
    image.add(id(2), built(2), &texts(&["default"]), 2).unwrap();
    image.add(id(3), built(3), &texts(&["v2"]), 3).unwrap();
    assert_eq!(snapshot_of(&image, "default"), Some(snapshot(2)));
    assert_eq!(snapshot_of(&image, "v2"), Some(snapshot(3)));
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let mut image = image();
    build(&mut image, 1, &["default"]);
    image.announce(id(4), texts(&["default"]), 4);
    image.begin(&id(4), &node()).unwrap();
    let text = serde_json::to_string(&image).unwrap();
    let mut read: ImageRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(read, image);
    read.abandon(&NodeId::from_random([8; 16]), "stopped");
    assert_eq!(read, image, "another node builds it");
    read.abandon(&node(), "stopped");
    assert!(matches!(read.builds[&id(4)].outcome, BuildOutcome::Failed(_)));
}

#[test]
fn an_empty_command_is_none() {
    assert_eq!(StartCommands::new(Some(" ".to_owned()), None), None);
    let start = StartCommands::new(Some("serve".to_owned()), Some(String::new())).unwrap();
    assert_eq!(start, StartCommands { command: Some("serve".to_owned()), ready: None });
}
