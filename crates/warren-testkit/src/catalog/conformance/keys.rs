use warren_core::KeyRecord;
use warren_core::catalog::{Catalog, CatalogErrorKind};

use super::super::records::sample_key;
use super::{Check, ann, bob, kind};

pub(super) const CHECKS: &[Check] =
    &[keys_are_found_by_hash_alone, keys_are_listed_by_owner, revoking_twice_keeps_the_first_time];

fn keys_are_found_by_hash_alone(catalog: &dyn Catalog) {
    let key = sample_key(&ann(), 1);
    assert_eq!(catalog.key_by_hash(&key.hash).expect("a query"), None);
    catalog.insert_key(&key).expect("it is new");
    assert_eq!(catalog.key_by_hash(&key.hash).expect("a query"), Some(key.clone()));
    assert_eq!(catalog.key_by_hash("").expect("a query"), None);
    assert_eq!(catalog.key_by_hash(&key.hash[1..]).expect("a query"), None);
    assert_eq!(kind(catalog.insert_key(&key)), CatalogErrorKind::AlreadyExists);
    let same_hash = KeyRecord { hash: key.hash, ..sample_key(&bob(), 2) };
    assert_eq!(kind(catalog.insert_key(&same_hash)), CatalogErrorKind::AlreadyExists);
}

fn keys_are_listed_by_owner(catalog: &dyn Catalog) {
    let keys = [sample_key(&ann(), 1), sample_key(&bob(), 2), sample_key(&ann(), 3)];
    for key in keys.iter().rev() {
        catalog.insert_key(key).expect("it is new");
    }
    assert_eq!(catalog.keys(None).expect("a query"), keys);
    let [first, second, third] = keys;
    assert_eq!(catalog.keys(Some(&ann())).expect("a query"), [first, third]);
    assert_eq!(catalog.keys(Some(&bob())).expect("a query"), [second]);
}

fn revoking_twice_keeps_the_first_time(catalog: &dyn Catalog) {
    let key = sample_key(&ann(), 1);
    assert_eq!(kind(catalog.revoke_key(&key.id, 5)), CatalogErrorKind::NotFound);
    catalog.insert_key(&key).expect("it is new");
    let revoked = KeyRecord { revoked_unix_ms: Some(5), ..key };
    assert_eq!(catalog.revoke_key(&revoked.id, 5).expect("it is there"), revoked);
    assert_eq!(catalog.revoke_key(&revoked.id, 6).expect("it is there"), revoked);
    assert_eq!(catalog.key_by_hash(&revoked.hash).expect("a query"), Some(revoked.clone()));
    assert_eq!(catalog.keys(Some(&ann())).expect("a query"), [revoked]);
}
