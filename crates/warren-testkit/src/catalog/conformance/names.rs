use std::thread;

use warren_core::catalog::{Catalog, CatalogErrorKind, Durability, NewRecords, SandboxFilter};
use warren_core::{BuildId, PageRequest, SandboxId, SandboxName, SandboxRecord, Status};

use super::super::records::bits;
use super::sandboxes::died;
use super::{Check, ann, bob, insert, kind, new};

pub(super) const CHECKS: &[Check] = &[
    a_name_is_one_sandboxs_among_its_owners,
    of_many_who_want_a_name_one_gets_it,
    a_refused_name_changes_nothing,
    a_name_is_kept_by_a_stopped_sandbox_and_free_after_a_removed_one,
    a_beginning_finds_the_owners_sandboxes_and_those_that_are_over_last,
    the_last_sandbox_is_the_newest_that_is_not_over,
];

fn name(text: &str) -> SandboxName {
    text.parse().expect("a name")
}

fn named(number: u32, text: &str) -> NewRecords {
    let mut new = new(&ann(), number);
    new.sandbox.name = Some(name(text));
    new
}

fn holder(catalog: &dyn Catalog, text: &str) -> Option<SandboxId> {
    catalog.sandbox_named(&ann(), &name(text)).expect("a query")
}

fn next(record: &SandboxRecord) -> SandboxRecord {
    SandboxRecord { generation: record.generation + 1, ..record.clone() }
}

fn a_name_is_one_sandboxs_among_its_owners(catalog: &dyn Catalog) {
    let first = named(1, "web").sandbox;
    catalog.insert(named(1, "web")).expect("it is new");
    assert_eq!(kind(catalog.insert(named(2, "web"))), CatalogErrorKind::NameTaken);
    catalog.insert(named(3, "web-2")).expect("another name");
    insert(catalog, &ann(), 4);
    insert(catalog, &ann(), 5);
    assert_eq!(holder(catalog, "web").as_ref(), Some(&first.id));
    assert_eq!(holder(catalog, "we"), None);
    assert_eq!(catalog.sandbox_named(&bob(), &name("web")).expect("a query"), None);
    let mut theirs = new(&bob(), 6);
    theirs.sandbox.name = Some(name("web"));
    catalog.insert(theirs.clone()).expect("another owner may have the name");
    assert_eq!(catalog.sandbox_named(&bob(), &name("web")).expect("a query"), Some(theirs.sandbox.id));
    assert_eq!(catalog.sandbox(&ann(), &first.id).expect("a query"), Some(first.clone()));
    let filter = SandboxFilter { name: Some(name("web")), ..SandboxFilter::default() };
    let listed = catalog.sandboxes(&ann(), &filter, &PageRequest::default()).expect("a query").items;
    assert_eq!(listed, [first]);
}

fn of_many_who_want_a_name_one_gets_it(catalog: &dyn Catalog) {
    let record = insert(catalog, &ann(), 100).sandbox;
    let renamed = SandboxRecord { name: Some(name("web")), ..next(&record) };
    let won: usize = thread::scope(|scope| {
        let makers = (1..8).map(|number| scope.spawn(move || catalog.insert(named(number, "web")).is_ok()));
        let makers: Vec<_> = makers.collect();
        let renaming = scope.spawn(|| catalog.update_sandbox(&renamed, Durability::Process).is_ok());
        makers.into_iter().chain([renaming]).map(|one| usize::from(one.join().expect("no panic"))).sum()
    });
    assert_eq!(won, 1);
    assert!(holder(catalog, "web").is_some());
}

fn a_refused_name_changes_nothing(catalog: &dyn Catalog) {
    catalog.insert(named(1, "web")).expect("it is new");
    let refused = named(2, "web");
    assert_eq!(kind(catalog.insert(refused.clone())), CatalogErrorKind::NameTaken);
    assert_eq!(catalog.sandbox(&ann(), &refused.sandbox.id).expect("a query"), None, "all or none");
    assert_eq!(catalog.session(&ann(), &refused.session.id).expect("a query"), None, "all or none");
    let second = named(3, "db").sandbox;
    catalog.insert(named(3, "db")).expect("it is new");
    let wish = SandboxRecord { name: Some(name("web")), ..next(&second) };
    assert_eq!(kind(catalog.update_sandbox(&wish, Durability::Process)), CatalogErrorKind::NameTaken);
    assert_eq!(catalog.sandbox(&ann(), &second.id).expect("a query"), Some(second.clone()));
    let same = SandboxRecord { made_in_ms: 7, ..next(&second) };
    catalog.update_sandbox(&same, Durability::Process).expect("its own name is no hindrance");
    let unnamed = SandboxRecord { name: None, ..next(&same) };
    catalog.update_sandbox(&unnamed, Durability::Process).expect("it lets go");
    catalog.insert(named(4, "db")).expect("the name is free");
}

fn a_name_is_kept_by_a_stopped_sandbox_and_free_after_a_removed_one(catalog: &dyn Catalog) {
    let first = named(1, "web").sandbox;
    catalog.insert(named(1, "web")).expect("it is new");
    let stopped = died(&first, 2, true);
    catalog.update_sandbox(&stopped, Durability::Process).expect("the generation follows");
    assert_eq!(holder(catalog, "web").as_ref(), Some(&first.id));
    assert_eq!(kind(catalog.insert(named(2, "web"))), CatalogErrorKind::NameTaken);
    let removed = died(&stopped, 3, false);
    catalog.update_sandbox(&removed, Durability::Process).expect("the generation follows");
    assert_eq!(holder(catalog, "web"), None);
    catalog.insert(named(2, "web")).expect("the name is free");
    let every = SandboxFilter { ended: true, name: Some(name("web")), ..SandboxFilter::default() };
    let had = catalog.sandboxes(&ann(), &every, &PageRequest::default()).expect("a query").items;
    assert_eq!(had.len(), 2, "the record of the removed one still says its name");
}

fn a_beginning_finds_the_owners_sandboxes_and_those_that_are_over_last(catalog: &dyn Catalog) {
    let [first, second] = [1, 2].map(|number| insert(catalog, &ann(), number).sandbox);
    insert(catalog, &bob(), 3);
    let find = |beginning: &str, most| catalog.sandboxes_beginning(&ann(), beginning, most).expect("a query");
    let common = &first.id.as_str()[..20];
    assert_eq!(find(common, 9), [second.id.clone(), first.id.clone()]);
    assert_eq!(find(common, 1), std::slice::from_ref(&second.id));
    assert_eq!(find(first.id.as_str(), 9), std::slice::from_ref(&first.id));
    assert_eq!(find("sbxh", 9), []);
    for odd in ["%", "_", "*", "sbx*", "sbx%", ""] {
        assert_eq!(find(odd, 9).len(), if odd.is_empty() { 2 } else { 0 }, "{odd}");
    }
    catalog.update_sandbox(&died(&second, 2, false), Durability::Process).expect("the generation follows");
    assert_eq!(find(common, 9), std::slice::from_ref(&first.id));
    catalog.update_sandbox(&died(&first, 2, false), Durability::Process).expect("the generation follows");
    assert_eq!(find(common, 9).len(), 2);
}

fn the_last_sandbox_is_the_newest_that_is_not_over(catalog: &dyn Catalog) {
    let last = || catalog.last_sandbox(&ann()).expect("a query");
    assert_eq!(last(), None);
    let first = insert(catalog, &ann(), 1).sandbox;
    let second = insert(catalog, &ann(), 2).sandbox;
    insert(catalog, &bob(), 3);
    let mut build = new(&ann(), 4);
    build.sandbox.build = Some(BuildId::from_random(bits(1)));
    catalog.insert(build).expect("it is new");
    assert_eq!(last().as_ref(), Some(&second.id));
    let stopped = died(&second, 2, true);
    assert_eq!(stopped.status, Status::Stopped);
    catalog.update_sandbox(&stopped, Durability::Process).expect("the generation follows");
    assert_eq!(last().as_ref(), Some(&second.id), "a stopped one counts");
    catalog.update_sandbox(&died(&stopped, 3, false), Durability::Process).expect("the generation follows");
    assert_eq!(last(), Some(first.id));
}
