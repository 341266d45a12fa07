//! The store as the engine uses it.

use std::fs;

use warren_core::{OwnerBond, SandboxId, SandboxSpec, TemplateErrorKind, TemplateName, Templates as _};

use crate::support::TestStore;

fn name(text: &str) -> TemplateName {
    text.parse().unwrap()
}

fn imported() -> TestStore {
    let test = TestStore::new();
    let source = tempfile::tempdir().unwrap();
    fs::write(source.path().join("file"), "content").unwrap();
    for template in ["one", "two"] {
        test.import_path(template, source.path()).unwrap();
    }
    test
}

#[test]
fn broken_templates_are_listed_with_what_is_wrong() {
    let test = imported();
    fs::write(test.templates().join("two/template.json"), "{").unwrap();
    let found = test.store.templates().unwrap();
    let names: Vec<&str> = found.iter().map(|template| template.name.as_str()).collect();
    assert_eq!(names, ["host", "one", "two"]);
    assert_eq!((found[0].source.as_str(), found[0].user.as_str()), ("built_in", "user"));
    assert_eq!((found[1].source.as_str(), found[1].broken.as_ref()), ("directory", None));
    assert!(found[1].created_unix_ms > 1_600_000_000_000 && found[1].digest.starts_with("sha256:"));
    let why = found[2].broken.as_deref().unwrap();
    assert!(why.contains("is damaged: remove the template"), "{why}");
}

#[test]
fn a_request_is_made_of_the_template_and_the_spec() {
    let test = imported();
    let id = SandboxId::from_random([1; 16]);
    let mut spec = SandboxSpec::new(name("one"));
    spec.env.insert("NAME".to_owned(), "value".to_owned());
    let request = test.store.request(&id, &spec, OwnerBond::Outlives).unwrap();
    assert_eq!((request.id, request.owner), (id.clone(), OwnerBond::Outlives));
    let [given, own] = request.root.trees()[0].lowers.as_slice() else { panic!("{:?}", request.root) };
    assert_eq!(*own, test.templates().join("one/root"));
    assert!(given.starts_with(test.data.path().join("common")) && given.join("etc/resolv.conf").is_file());
    assert_eq!(request.env.last().map(String::as_str), Some("NAME=value"));

    fs::write(test.templates().join("two/template.json"), "{").unwrap();
    for (template, kind) in [("none", TemplateErrorKind::NotFound), ("two", TemplateErrorKind::Broken)] {
        let spec = SandboxSpec::new(name(template));
        let error = test.store.request(&id, &spec, OwnerBond::Outlives).unwrap_err();
        assert_eq!(error.kind, kind);
        assert!(error.to_string().contains(&format!("`{template}`")), "{error}");
    }
}

#[test]
fn a_template_in_use_is_not_removed() {
    let test = imported();
    let remove = |template: &str, in_use: &[TemplateName]| {
        test.store.remove_template(&name(template), in_use).map_err(|error| error.kind)
    };
    assert_eq!(remove("one", &[name("two"), name("one")]), Err(TemplateErrorKind::InUse));
    assert_eq!(remove("host", &[]), Err(TemplateErrorKind::InUse));
    assert_eq!(remove("none", &[]), Err(TemplateErrorKind::NotFound));
    assert_eq!(remove("one", &[name("two")]), Ok(()));
    assert_eq!(remove("one", &[]), Err(TemplateErrorKind::NotFound));
}
