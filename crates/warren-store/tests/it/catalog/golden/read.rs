//! Everything that the ports read from a catalog, as one text.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use warren_core::catalog::{
    EventFilter, EventLog as _, ImageCatalog as _, JournalCatalog as _, KeyCatalog as _, NetworkCatalog as _,
    NodeCatalog as _, PortCatalog as _, SandboxCatalog as _, SandboxFilter, SecretCatalog as _,
    SessionCatalog as _, SessionFilter, SnapshotCatalog as _, SnapshotFilter,
};
use warren_core::{LayerId, Owner, PageRequest, SnapshotRecord};
use warren_store::SqliteCatalog;

use super::fill::{KEY, sandbox, tool_call};

pub(super) fn ann() -> Owner {
    "ann".parse().unwrap()
}

pub(super) fn bob() -> Owner {
    "bob".parse().unwrap()
}

pub(super) fn everything(catalog: &SqliteCatalog) -> String {
    let tool_calls = ["call-1", "call-2"].map(|call| catalog.begin_call(&tool_call(call)).unwrap());
    let all = json!({
        "ann": of_owner(catalog, &ann()),
        "bob": of_owner(catalog, &bob()),
        "keys": catalog.keys(None).unwrap(),
        "last_event": catalog.last_event().unwrap(),
        "remembered": format!("{:?}", catalog.remembered(&ann(), KEY).unwrap()),
        "tool_calls": tool_calls,
        "at_start": at_start(catalog),
        "notes": notes(catalog),
    });
    serde_json::to_string_pretty(&all).unwrap() + "\n"
}

fn of_owner(catalog: &SqliteCatalog, owner: &Owner) -> Value {
    let page = PageRequest::default();
    let every = SandboxFilter { ended: true, ..SandboxFilter::default() };
    let sandboxes = catalog.sandboxes(owner, &every, &page).unwrap().items;
    let journal: Vec<_> =
        sandboxes.iter().flat_map(|record| catalog.entries(owner, &record.id, None, 100).unwrap()).collect();
    let every = SessionFilter { ended: true, ..SessionFilter::default() };
    let sessions = catalog.sessions(owner, &every, &page).unwrap().items;
    let runs: Vec<_> = sessions.iter().flat_map(|record| catalog.runs(owner, &record.id).unwrap()).collect();
    let secrets: Vec<_> = catalog
        .secrets(owner)
        .unwrap()
        .into_iter()
        .map(|record| {
            let secret = catalog.secret(owner, &record.name).unwrap().unwrap();
            json!({ "record": record, "value": secret.value })
        })
        .collect();
    json!({
        "sandboxes": sandboxes,
        "sessions": sessions,
        "runs": runs,
        "snapshots": catalog.snapshots(owner, &SnapshotFilter::default(), &page).unwrap().items,
        "journal": journal,
        "secrets": secrets,
        "images": catalog.images(owner).unwrap(),
        "kept_steps": catalog.kept_steps(owner).unwrap(),
        "events": catalog.events(owner, &EventFilter::default(), 0, 1000).unwrap(),
    })
}

/// Answers to the engine's queries at its start and for garbage collection.
fn at_start(catalog: &SqliteCatalog) -> Value {
    let layers: BTreeSet<LayerId> =
        catalog.layers_of_snapshots(catalog.node()).unwrap().into_iter().collect();
    let ids = |records: Vec<SnapshotRecord>| records.into_iter().map(|record| record.id).collect::<Vec<_>>();
    let standing: Vec<_> = layers
        .iter()
        .map(|layer| json!([layer, ids(catalog.snapshots_on(catalog.node(), layer).unwrap())]))
        .collect();
    let unfinished: Vec<_> =
        catalog.unfinished_sandboxes(catalog.node()).unwrap().into_iter().map(|record| record.id).collect();
    let sessions: BTreeSet<_> =
        catalog.open_sessions(catalog.node()).unwrap().into_iter().map(|record| record.id).collect();
    json!({
        "unfinished_sandboxes": unfinished,
        "open_sessions": sessions,
        "open_entries": catalog.open_entries(&sandbox(1)).unwrap().len(),
        "undurable_snapshots": ids(catalog.undurable_snapshots(catalog.node()).unwrap()),
        "snapshots_on": standing,
        "templates": catalog.templates_of_snapshots(catalog.node()).unwrap().into_iter().collect::<BTreeSet<_>>(),
    })
}

/// Notes of the node, the engine and the server beside the records.
fn notes(catalog: &SqliteCatalog) -> Value {
    let ports: Vec<_> = catalog
        .ports()
        .unwrap()
        .into_iter()
        .map(|record| json!([record.sandbox, record.port, record.settings.public, record.settings.host]))
        .collect();
    let reached: Vec<_> = [1, 2]
        .into_iter()
        .flat_map(|number| catalog.reached(&ann(), &sandbox(number)).unwrap())
        .map(|destination| json!([destination.host.to_string(), destination.port]))
        .collect();
    json!({
        "node": catalog.node_record().unwrap(),
        "default_sandboxes": [catalog.default_sandbox(&ann()).unwrap(), catalog.default_sandbox(&bob()).unwrap()],
        "ports": ports,
        "reached": reached,
    })
}
