use warren_core::catalog::{Catalog, CatalogErrorKind, Durability};
use warren_core::{Owner, PortRecord, PortSettings, SandboxId};

use super::sandboxes::died;
use super::{Check, ann, bob, here, insert, kind, new};

pub(super) const CHECKS: &[Check] =
    &[what_is_set_of_a_port_is_read_again, a_ports_settings_need_its_sandbox_and_go_with_it];

fn public() -> PortSettings {
    PortSettings { public: true, host: None }
}

fn what_is_set_of_a_port_is_read_again(catalog: &dyn Catalog) {
    let (first, second) = (insert(catalog, &ann(), 1).sandbox.id, insert(catalog, &bob(), 2).sandbox.id);
    let told = PortSettings { public: false, host: Some("it's \"here\":80".to_owned()) };
    for (owner, sandbox, port, settings) in [
        (ann(), &first, 80, public()),
        (ann(), &first, 65535, told.clone()),
        (bob(), &second, 80, told.clone()),
        (ann(), &first, 80, PortSettings { public: true, ..told.clone() }),
        (ann(), &first, 81, PortSettings::default()),
    ] {
        catalog.set_port(&owner, sandbox, port, &settings).expect("the sandbox is there");
    }
    let record = |sandbox: &_, port, settings: &PortSettings| PortRecord {
        sandbox: Clone::clone(sandbox),
        port,
        settings: settings.clone(),
    };
    let both = PortSettings { public: true, ..told.clone() };
    let wanted = [record(&first, 80, &both), record(&first, 65535, &told), record(&second, 80, &told)];
    assert_eq!(catalog.ports().expect("a query"), wanted);
    catalog.set_port(&ann(), &first, 80, &PortSettings::default()).expect("a change");
    assert_eq!(catalog.ports().expect("a query"), wanted[1..]);
}

fn a_ports_settings_need_its_sandbox_and_go_with_it(catalog: &dyn Catalog) {
    let sandbox = insert(catalog, &ann(), 1).sandbox;
    let set = |owner: &Owner, id: &SandboxId| catalog.set_port(owner, id, 80, &public());
    assert_eq!(kind(set(&bob(), &sandbox.id)), CatalogErrorKind::NotFound, "it is another's");
    assert_eq!(kind(set(&ann(), &new(&ann(), 2).sandbox.id)), CatalogErrorKind::NotFound);
    assert!(catalog.ports().expect("a query").is_empty());
    set(&ann(), &sandbox.id).expect("it is there");
    catalog.update_sandbox(&died(&sandbox, 100, false), Durability::Process).expect("the next one");
    assert_eq!(catalog.ports().expect("a query").len(), 1);
    catalog.forget_sandboxes(&here(), 200).expect("a change");
    assert!(catalog.ports().expect("a query").is_empty());
}
