use std::collections::BTreeSet;

use warren_core::catalog::{Catalog, CatalogErrorKind, Durability};
use warren_core::network::Destination;

use super::sandboxes::died;
use super::{Check, ann, bob, here, insert, kind, new};

pub(super) const CHECKS: &[Check] =
    &[what_was_reached_is_added_up_to_a_bound, what_was_reached_needs_its_sandbox_and_goes_with_it];

fn destinations(texts: &[(&str, u16)]) -> BTreeSet<Destination> {
    let destination =
        |(host, port): &(&str, u16)| Destination { host: host.parse().expect("a host"), port: *port };
    texts.iter().map(destination).collect()
}

fn what_was_reached_is_added_up_to_a_bound(catalog: &dyn Catalog) {
    let id = insert(catalog, &ann(), 1).sandbox.id;
    let reached = || catalog.reached(&ann(), &id).expect("a query");
    assert!(reached().is_empty());
    let first = destinations(&[("a.example", 443), ("192.0.2.7", 0), ("2001:db8::1", 65535)]);
    for _ in 0..2 {
        catalog.add_reached(&id, &first, 4).expect("the sandbox is there");
        assert_eq!(reached(), first);
    }
    let more = destinations(&[("a.example", 80), ("b.example", 80), ("c.example", 80)]);
    catalog.add_reached(&id, &more, 4).expect("the sandbox is there");
    let all = reached();
    assert!(all.len() == 4 && all.is_superset(&first), "{all:?}");
    assert!(catalog.reached(&bob(), &id).expect("a query").is_empty(), "it is another's");
    catalog.forget_reached(&id).expect("a change");
    assert!(reached().is_empty());
}

fn what_was_reached_needs_its_sandbox_and_goes_with_it(catalog: &dyn Catalog) {
    let sandbox = insert(catalog, &ann(), 1).sandbox;
    let some = destinations(&[("a.example", 443)]);
    let unknown = new(&ann(), 2).sandbox.id;
    assert_eq!(kind(catalog.add_reached(&unknown, &some, 9)), CatalogErrorKind::NotFound);
    catalog.forget_reached(&unknown).expect("nothing to forget is no error");
    catalog.add_reached(&sandbox.id, &some, 9).expect("the sandbox is there");
    catalog.update_sandbox(&died(&sandbox, 100, false), Durability::Process).expect("the next one");
    catalog.forget_sandboxes(&here(), 200).expect("a change");
    let mut again = new(&ann(), 1);
    again.session.created_unix_ms += 1;
    catalog.insert(again).expect("it is forgotten");
    assert!(catalog.reached(&ann(), &sandbox.id).expect("a query").is_empty());
}
