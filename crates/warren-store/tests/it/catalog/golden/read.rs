//! All that the ports tell of a catalog, as one text.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use warren_core::catalog::{
    EventLog as _, JournalCatalog as _, KeyCatalog as _, SandboxCatalog as _, SandboxFilter,
    SecretCatalog as _, SessionCatalog as _, SessionFilter, SnapshotCatalog as _, SnapshotFilter,
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
        "settings": settings(catalog),
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
        "events": catalog.events(owner, 0, 1000).unwrap(),
    })
}

/// What the engine looks for when it starts, and to collect garbage.
fn at_start(catalog: &SqliteCatalog) -> Value {
    let layers: BTreeSet<LayerId> = catalog.layers_of_snapshots().unwrap().into_iter().collect();
    let ids = |records: Vec<SnapshotRecord>| records.into_iter().map(|record| record.id).collect::<Vec<_>>();
    let standing: Vec<_> =
        layers.iter().map(|layer| json!([layer, ids(catalog.snapshots_on(layer).unwrap())])).collect();
    let unfinished: Vec<_> =
        catalog.unfinished_sandboxes().unwrap().into_iter().map(|record| record.id).collect();
    let sessions: BTreeSet<_> =
        catalog.open_sessions().unwrap().into_iter().map(|record| record.id).collect();
    json!({
        "unfinished_sandboxes": unfinished,
        "open_sessions": sessions,
        "open_entries": catalog.open_entries(&sandbox(1)).unwrap().len(),
        "undurable_snapshots": ids(catalog.undurable_snapshots().unwrap()),
        "snapshots_on": standing,
        "templates": catalog.templates_of_snapshots().unwrap().into_iter().collect::<BTreeSet<_>>(),
    })
}

fn settings(catalog: &SqliteCatalog) -> Value {
    let names = [
        "instance".to_owned(),
        "clock_anchor".to_owned(),
        "snapshots_boot".to_owned(),
        "server.local_key".to_owned(),
        "default-sandbox/ann".to_owned(),
        "default-sandbox/bob".to_owned(),
        format!("network_reached.{}", sandbox(1)),
        "server.ports".to_owned(),
        "server.e2b.templates.ann".to_owned(),
    ];
    names.into_iter().map(|name| json!([name, catalog.setting(&name).unwrap()])).collect()
}
