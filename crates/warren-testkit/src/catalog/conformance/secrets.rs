use warren_core::catalog::Catalog;
use warren_core::network::{Secret, SecretRecord};

use super::super::records::sample_secret;
use super::{Check, ann, bob};

pub(super) const CHECKS: &[Check] = &[
    a_secret_is_read_back_by_its_owner_alone,
    putting_a_secret_again_replaces_all_but_the_time_of_its_making,
    a_removed_secret_is_gone_and_the_others_stay,
];

fn a_secret_is_read_back_by_its_owner_alone(catalog: &dyn Catalog) {
    let (first, second) = (sample_secret("b-first", 1), sample_secret("a_second", 2));
    assert_eq!(catalog.secrets(&ann()).expect("a query"), []);
    assert_eq!(catalog.owners_of_secrets().expect("a query"), []);
    assert_eq!(catalog.secret(&ann(), &first.record.name).expect("a query"), None);
    for secret in [&first, &second] {
        catalog.put_secret(&ann(), secret).expect("it is new");
    }
    let records = [second.record.clone(), first.record.clone()];
    assert_eq!(catalog.secrets(&ann()).expect("a query"), records, "by name");
    assert_eq!(catalog.secret(&ann(), &first.record.name).expect("a query"), Some(first.clone()));
    assert_eq!(catalog.secrets(&bob()).expect("a query"), []);
    assert_eq!(catalog.owners_of_secrets().expect("a query"), [ann()]);
    assert_eq!(catalog.secret(&bob(), &first.record.name).expect("a query"), None);
    let theirs = Secret { value: "another value".to_owned(), ..first.clone() };
    catalog.put_secret(&bob(), &theirs).expect("names are each owner's own");
    assert_eq!(catalog.secret(&bob(), &first.record.name).expect("a query"), Some(theirs));
    assert_eq!(catalog.secret(&ann(), &first.record.name).expect("a query"), Some(first));
}

fn putting_a_secret_again_replaces_all_but_the_time_of_its_making(catalog: &dyn Catalog) {
    let first = sample_secret("token", 1);
    catalog.put_secret(&ann(), &first).expect("it is new");
    let second = Secret { value: "the next value".to_owned(), ..sample_secret("token", 5) };
    catalog.put_secret(&ann(), &second).expect("it is replaced");
    let created_unix_ms = first.record.created_unix_ms;
    let record = SecretRecord { created_unix_ms, ..second.record.clone() };
    assert_eq!(catalog.secrets(&ann()).expect("a query"), std::slice::from_ref(&record));
    let found = catalog.secret(&ann(), &second.record.name).expect("a query");
    assert_eq!(found, Some(Secret { record, value: second.value }));
}

fn a_removed_secret_is_gone_and_the_others_stay(catalog: &dyn Catalog) {
    let (first, second) = (sample_secret("first", 1), sample_secret("second", 2));
    for secret in [&first, &second] {
        catalog.put_secret(&ann(), secret).expect("it is new");
    }
    assert!(!catalog.remove_secret(&bob(), &first.record.name).expect("a change"), "it is another's");
    assert!(catalog.remove_secret(&ann(), &first.record.name).expect("a change"));
    assert!(!catalog.remove_secret(&ann(), &first.record.name).expect("a change"));
    assert_eq!(catalog.secrets(&ann()).expect("a query"), [second.record]);
    assert_eq!(catalog.secret(&ann(), &first.record.name).expect("a query"), None);
}
