use super::*;

fn id(number: u8) -> SnapshotId {
    SnapshotId::from_random([number; 16])
}

fn context() -> Context {
    let env = [("A".to_owned(), "1".to_owned())].into();
    Context { template: TemplateName::host(), env, user: Some("user".to_owned()), workdir: None }
}

fn image(number: u8) -> Image {
    let sandbox = SandboxId::from_random([number; 16]);
    let start = Start::new(Some("serve".to_owned()), None);
    Image { snapshot: id(number), sandbox, context: context(), start }
}

fn new(name: Option<&str>, number: u8, tags: &[&str]) -> NewBuild {
    NewBuild {
        template: format!("template{number}"),
        build: format!("build{number}"),
        name: name.map(str::to_owned),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        cpus: None,
        memory_mb: None,
        now: u64::from(number),
    }
}

fn reference(text: &str) -> Reference {
    Reference::parse(text).unwrap()
}

/// The snapshot that one gets by a name.
fn snapshot_of(book: &Book, text: &str) -> Option<SnapshotId> {
    let reference = reference(text);
    Some(book.find(&reference.name)?.1.image(reference.tag_or_default())?.snapshot.clone())
}

fn build(book: &mut Book, name: &str, number: u8, tags: &[&str]) -> String {
    let new = new(Some(name), number, tags);
    let build = new.build.clone();
    let template = book.announce(new).unwrap();
    book.begin(&template, &build).unwrap();
    book.finish(&template, &build, Outcome::Ready(Box::new(image(number))), 9).unwrap();
    template
}

#[test]
fn a_build_is_found_once_it_is_ready() {
    let mut book = Book::default();
    let template = book.announce(new(Some("app"), 1, &["default", "v1"])).unwrap();
    assert_eq!(snapshot_of(&book, "app"), None);
    book.begin(&template, "build1").unwrap();
    assert!(book.begin(&template, "build1").is_err());
    book.finish(&template, "build1", Outcome::Ready(Box::new(image(1))), 5).unwrap();
    for name in ["app", "app:v1", "template1", "template1:default"] {
        assert_eq!(snapshot_of(&book, name), Some(id(1)), "{name}");
    }
    assert_eq!(snapshot_of(&book, "app:v2"), None);
}

#[test]
fn what_no_tag_names_is_forgotten_with_its_snapshot() {
    let mut book = Book::default();
    let first = build(&mut book, "app", 1, &["default", "v1"]);
    let second = build(&mut book, "app", 2, &["default"]);
    assert_eq!(first, second, "a name has one template");
    assert_eq!(snapshot_of(&book, "app"), Some(id(2)));
    assert_eq!(snapshot_of(&book, "app:v1"), Some(id(1)));
    assert_eq!(book.snapshots().len(), 2);
    build(&mut book, "app", 3, &["v1"]);
    assert_eq!(book.snapshots(), [&id(2), &id(3)].into());
    assert_eq!(book.find("app").unwrap().1.build_count, 3);
}

#[test]
fn a_failed_build_changes_no_tag() {
    let mut book = Book::default();
    let template = build(&mut book, "app", 1, &["default"]);
    book.announce(new(Some("app"), 2, &["default"])).unwrap();
    book.begin(&template, "build2").unwrap();
    let failed = Outcome::Failed { message: "no".to_owned(), step: "1".to_owned() };
    book.finish(&template, "build2", failed.clone(), 9).unwrap();
    assert_eq!(snapshot_of(&book, "app"), Some(id(1)));
    assert_eq!(book.templates[&template].builds["build2"].outcome, failed);
}

#[test]
fn only_the_newest_of_what_came_to_nothing_are_remembered() {
    let mut book = Book::default();
    for number in 0..30 {
        book.announce(new(Some("app"), number, &["default"])).unwrap();
    }
    let template = book.find("app").unwrap().1;
    assert_eq!(template.builds.len(), MOST_UNTAGGED);
    assert_eq!(template.newest().unwrap().0, "build29");
    assert!(template.builds.contains_key("build20"));
}

#[test]
fn tags_are_put_and_taken_away() {
    let mut book = Book::default();
    build(&mut book, "app", 1, &["default"]);
    let tags = ["stable".to_owned(), "v1".to_owned()];
    assert_eq!(book.tag(&reference("app"), &tags, 3).unwrap(), "build1");
    assert!(book.tag(&reference("app:none"), &tags, 3).is_err());
    assert!(book.tag(&reference("other"), &tags, 3).is_err());
    assert!(book.untag("app", &["none".to_owned()], 4).is_err());
    book.untag("app", &["default".to_owned(), "v1".to_owned()], 4).unwrap();
    assert_eq!(snapshot_of(&book, "app:stable"), Some(id(1)));
    assert_eq!(snapshot_of(&book, "app"), None);
    let many: Vec<String> = (0..=MOST_TAGS).map(|number| format!("t{number}")).collect();
    assert!(book.tag(&reference("app:stable"), &many, 5).is_err());
}

#[test]
fn a_template_goes_whole_or_tag_by_tag() {
    let mut book = Book::default();
    build(&mut book, "app", 1, &["v1", "v2"]);
    build(&mut book, "other", 2, &["default"]);
    assert!(book.delete(&reference("app:v3"), 9).is_err());
    book.delete(&reference("app:v1"), 9).unwrap();
    assert_eq!(snapshot_of(&book, "app:v2"), Some(id(1)));
    book.delete(&reference("app:v2"), 9).unwrap();
    assert!(book.find("app").is_none());
    book.delete(&reference("template2"), 9).unwrap();
    assert!(book.delete(&reference("other"), 9).is_err());
    assert!(book.snapshots().is_empty());
}

#[test]
fn a_build_of_a_template_that_is_gone_is_lost() {
    let mut book = Book::default();
    let template = book.announce(new(Some("app"), 1, &["default"])).unwrap();
    book.begin(&template, "build1").unwrap();
    book.delete(&reference("app"), 9).unwrap();
    assert!(book.finish(&template, "build1", Outcome::Ready(Box::new(image(1))), 9).is_err());
    assert!(book.snapshots().is_empty());
}

#[test]
fn a_snapshot_is_a_template_of_its_own_or_one_more_build() {
    let mut book = Book::default();
    let unnamed = book.keep(new(None, 1, &["default"]), image(1)).unwrap();
    assert_eq!(snapshot_of(&book, &unnamed), Some(id(1)));
    let named = book.keep(new(Some("saved"), 2, &["default"]), image(2)).unwrap();
    let again = book.keep(new(Some("saved"), 3, &["v2"]), image(3)).unwrap();
    assert_eq!(named, again);
    assert_eq!(snapshot_of(&book, "saved"), Some(id(2)));
    assert_eq!(snapshot_of(&book, "saved:v2"), Some(id(3)));
}

#[test]
fn the_layers_used_last_are_kept() {
    let mut book = Book::default();
    let layer = |number: u8| Layer { key: format!("k{number}"), snapshot: id(number), context: context() };
    for number in 0..u8::try_from(MOST_LAYERS).unwrap() {
        book.keep_layer(layer(number));
    }
    book.use_layer("k0", true);
    book.keep_layer(layer(200));
    assert!(book.layer("k0").is_some() && book.layer("k1").is_none());
    book.use_layer("k200", false);
    assert!(book.layer("k200").is_none());
}

#[test]
fn a_book_is_read_as_it_was_written() {
    let mut book = Book::default();
    build(&mut book, "app", 1, &["default"]);
    book.keep(new(None, 2, &["default"]), image(2)).unwrap();
    book.keep_layer(Layer { key: "k".to_owned(), snapshot: id(3), context: context() });
    let begun = book.announce(new(Some("app"), 4, &["default"])).unwrap();
    book.begin(&begun, "build4").unwrap();
    let text = serde_json::to_string(&book).unwrap();
    let mut read: Book = serde_json::from_str(&text).unwrap();
    assert_eq!(read, book);
    read.abandon("stopped");
    assert!(matches!(read.templates[&begun].builds["build4"].outcome, Outcome::Failed { .. }));
}

#[test]
fn there_are_not_endlessly_many_templates() {
    let mut book = Book::default();
    for number in 0..MOST_TEMPLATES {
        book.templates.insert(format!("t{number}"), Template::new(None, Kind::Steps, 0));
    }
    assert!(book.announce(new(Some("app"), 1, &["default"])).is_err());
    assert!(book.keep(new(None, 2, &["default"]), image(2)).is_err());
}
