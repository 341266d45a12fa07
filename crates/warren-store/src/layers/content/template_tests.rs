use std::fs;
use std::path::Path;

use warren_core::{
    LayerContent as _, LayerErrorKind, LayerId, LayerStore as _, Stack, TemplateErrorKind, TemplateName,
    Templates as _,
};

use crate::layers::content::fixture::{Fixture, Thing, file, stack};
use crate::{ImportLimits, ImportRequest, ImportSource, Replace, TemplateStore};

fn name(text: &str) -> TemplateName {
    text.parse().unwrap()
}

struct Test {
    fixture: Fixture,
    templates: TemplateStore,
}

impl Test {
    /// A store with the template `below`.
    fn new() -> Self {
        let fixture = Fixture::new();
        let templates = TemplateStore::open(fixture.data.path()).unwrap();
        let test = Self { fixture, templates };
        test.import(Replace::Never).unwrap();
        test
    }

    fn import(&self, replace: Replace<'_>) -> Result<(), crate::ImportError> {
        let source = self.fixture.data.path().join("source");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("file"), "below").unwrap();
        let limits = ImportLimits { reserve_bytes: 0, reserve_percent: 0, ..ImportLimits::default() };
        let request = ImportRequest {
            name: name("below"),
            source: ImportSource::Path(source),
            replace,
            limits,
            progress: &mut |_| {},
        };
        self.templates.import(request).map(drop)
    }

    fn make(&self, below: &str, layers: &[&LayerId], made: &str) -> Result<String, LayerErrorKind> {
        let info = self.fixture.store.make_template(&name(below), &stack(layers), &name(made));
        info.map(|info| info.source).map_err(|error| error.kind)
    }

    /// The content of a file in a template, as a view of its trees finds it.
    fn read(&self, template: &str, path: &str) -> Option<String> {
        let template = self.templates.get(&name(template)).unwrap();
        let lowers = template.trees[0].lowers.iter();
        lowers.map(|lower| lower.join(path)).find_map(|path| fs::read_to_string(path).ok())
    }
}

#[test]
fn a_template_of_a_state_stands_on_the_one_below_it() {
    let test = Test::new();
    let old = test.fixture.layer(&[("file", file("old")), ("etc/x", file("1"))]);
    let new = test.fixture.layer(&[("file", file("new")), ("etc/hosts", Thing::Whiteout)]);
    assert_eq!(test.make("below", &[&new, &old], "made"), Ok("snapshot".to_owned()));
    for layer in [&old, &new] {
        test.fixture.store.remove(layer).unwrap();
    }
    assert_eq!(test.read("made", "file").as_deref(), Some("new"));
    assert_eq!(test.read("made", "etc/x").as_deref(), Some("1"));
    assert_eq!(test.read("below", "file").as_deref(), Some("below"));
    let made = test.templates.get(&name("made")).unwrap();
    // Its own, above what every sandbox is given, above the tree that was imported.
    assert_eq!(made.trees[0].lowers.len(), 3);
    assert!(made.trees[0].lowers[1].join("etc/resolv.conf").is_file());
    assert_eq!(made.manifest.config, test.templates.get(&name("below")).unwrap().manifest.config);
    let listed = test.templates.templates().unwrap();
    let listed = listed.iter().find(|info| info.name == name("made")).unwrap();
    assert_eq!((listed.source.as_str(), &listed.broken), ("snapshot", &None));
    assert!(listed.size_bytes > 0);

    let upon = test.fixture.layer(&[("file", file("newer"))]);
    test.make("made", &[&upon], "upon").unwrap();
    assert_eq!(test.read("upon", "file").as_deref(), Some("newer"));
    assert_eq!(test.read("upon", "etc/x").as_deref(), Some("1"));
}

#[test]
fn what_others_stand_on_is_neither_removed_nor_replaced() {
    let test = Test::new();
    test.make("below", &[], "made").unwrap();
    let error = test.templates.remove_template(&name("below"), &[]).unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::InUse);
    let replaced = test.import(Replace::Unless(&|_| false));
    assert!(matches!(replaced, Err(crate::ImportError::InUse { .. })), "{replaced:?}");
    assert_eq!(test.read("made", "file").as_deref(), Some("below"));
    test.templates.remove_template(&name("made"), &[]).unwrap();
    test.import(Replace::Unless(&|_| false)).unwrap();
    test.templates.remove_template(&name("below"), &[]).unwrap();
}

#[test]
fn a_template_that_cannot_be_made_leaves_nothing() {
    let test = Test::new();
    let layer = test.fixture.layer(&[("a", file("1"))]);
    let other_tree = test.fixture.layer_of(&[(1, &[("a", file("1"))])]);
    let kinds = [
        (test.make("below", &[&layer], "host"), LayerErrorKind::Invalid),
        (test.make("below", &[&layer], "below"), LayerErrorKind::Invalid),
        (test.make("none", &[&layer], "made"), LayerErrorKind::NotFound),
        (test.make("below", &[&test.fixture.draw()], "made"), LayerErrorKind::NotFound),
        (test.make("below", &[&other_tree], "made"), LayerErrorKind::Invalid),
    ];
    for (answer, expected) in kinds {
        assert_eq!(answer, Err(expected));
    }
    let left = fs::read_dir(test.fixture.data.path().join("templates")).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.retain(|name| name != ".lock");
    assert_eq!(left, ["below"]);
}

#[test]
fn templates_do_not_stand_on_one_another_without_end() {
    let test = Test::new();
    let mut below = "below".to_owned();
    for number in 0..crate::store::MOST_BASES {
        let made = format!("made-{number}");
        test.make(&below, &[], &made).unwrap();
        below = made;
    }
    assert_eq!(test.make(&below, &[], "one-more"), Err(LayerErrorKind::Invalid));
    assert!(!test.fixture.data.path().join("templates/one-more").exists());
}

#[test]
fn a_template_on_the_built_in_one_has_its_trees() {
    let test = Test::new();
    let layer = test.fixture.layer_of(&[(0, &[("srv/a", file("1"))]), (1, &[("local/b", file("2"))])]);
    test.make("host", &[&layer], "made").unwrap();
    let made = test.templates.get(&name("made")).unwrap();
    let at: Vec<_> = made.trees.iter().map(|tree| tree.at.as_path()).collect();
    assert_eq!(at, [Path::new("/"), Path::new("/usr")]);
    assert_eq!(fs::read_to_string(made.trees[0].lowers[0].join("srv/a")).unwrap(), "1");
    assert_eq!(fs::read_to_string(made.trees[1].lowers[0].join("local/b")).unwrap(), "2");
    assert!(test.fixture.store.make_template(&name("host"), &Stack::default(), &name("bare")).is_ok());
}
