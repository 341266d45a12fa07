use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use warren_core::{Capabilities, NetworkSupport, WallChoice};
use warren_engine::{BackendInfo, Moved};
use warren_face::error::ApiError;
use warren_wire::api;

use super::new_sandbox::checked_backend;
use super::sandbox::sandbox;
use super::snapshot::ended_process;
use super::words::{tier, tier_told};

/// All backends of this program: `known` are their names, `on` those that the settings switch on.
pub(crate) fn backends(on: Vec<BackendInfo>, known: impl Iterator<Item = &'static str>) -> api::BackendList {
    let off: Vec<&str> = known.filter(|name| on.iter().all(|backend| backend.name != *name)).collect();
    let off = off.into_iter().map(|name| api::Backend {
        name: name.to_owned(),
        on: false,
        healthy: false,
        problems: vec!["it is not on: add it to the setting `backends.enabled`".to_owned()],
        tier: None,
        capabilities: None,
    });
    api::BackendList { items: on.into_iter().map(backend).chain(off).collect() }
}

fn backend(info: BackendInfo) -> api::Backend {
    api::Backend {
        name: info.name,
        on: true,
        healthy: info.problems.is_empty(),
        problems: info.problems,
        tier: info.capabilities.as_ref().map(|able| tier_told(able.isolation)),
        capabilities: info.capabilities.as_ref().map(capabilities),
    }
}

fn capabilities(able: &Capabilities) -> api::BackendCapabilities {
    api::BackendCapabilities {
        snapshots: spelled(able.snapshots),
        memory_snapshots: able.memory_snapshots,
        roots: able.roots.iter().map(spelled).collect(),
        network: match &able.network {
            NetworkSupport::Namespace => "namespace".to_owned(),
            NetworkSupport::Own { .. } => "own".to_owned(),
            NetworkSupport::None => "none".to_owned(),
        },
        host_mounts: able.host_mounts,
        disk_quota: spelled(able.disk_quota),
        freeze: able.freeze,
        outlives_server: able.outlives_server,
    }
}

/// A word of the domain, as it is written.
fn spelled(word: impl Serialize) -> String {
    match serde_json::to_value(word) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

/// The choice of a move.
pub(crate) fn move_choice(body: &api::MoveSandbox) -> Result<WallChoice, ApiError> {
    let backend = body.backend.clone().map(|name| checked_backend(name, "")).transpose()?;
    Ok(WallChoice { backend, tier: body.tier.map(tier) })
}

pub(super) fn wall_choice(choice: &WallChoice) -> Option<api::WallChoice> {
    let told = || api::WallChoice { backend: choice.backend.clone(), tier: choice.tier.map(tier_told) };
    (!choice.is_free()).then(told)
}

pub(crate) fn moved(done: &Moved) -> api::MovedSandbox {
    api::MovedSandbox {
        sandbox: sandbox(&done.sandbox),
        from: done.from.clone(),
        to: done.to.clone(),
        ended: done.ended.iter().map(ended_process).collect(),
        took_ms: milliseconds(done.took),
    }
}

fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use warren_testkit::FakeIsolation;

    use super::*;

    #[test]
    fn backends_that_are_not_on_are_listed_with_what_to_do() {
        let able = Some(FakeIsolation::everything());
        let on = BackendInfo { name: "b".to_owned(), capabilities: able, problems: Vec::new() };
        let broken =
            BackendInfo { name: "c".to_owned(), capabilities: None, problems: vec!["no program".to_owned()] };
        let list = backends(vec![on, broken], ["a", "b", "c"].into_iter()).items;
        let told: Vec<_> = list.iter().map(|row| (row.name.as_str(), row.on, row.healthy)).collect();
        assert_eq!(told, [("b", true, true), ("c", true, false), ("a", false, false)]);
        assert_eq!(list[0].tier, Some(api::Tier::Namespaces));
        assert_eq!(list[0].capabilities.as_ref().map(|able| able.snapshots.as_str()), Some("sealed"));
        assert!(list[2].problems[0].contains("backends.enabled"));
    }
}
