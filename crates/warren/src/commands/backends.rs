use clap::Args;
use warren_wire::api::Backend;

use crate::error::CliError;
use crate::global::Global;
use crate::ui;
use crate::word::word;

/// List what isolates sandboxes: the tier of each backend, what it can do, and what is wrong with
/// it.
///
/// `warren doctor` on the server's machine says what to do about what is wrong.
#[derive(Debug, Args)]
pub(crate) struct Backends {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Backends {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let list = global.client()?.backends()?;
        ui::show(self.json, &list.items, |items| {
            let rows: Vec<_> = items.iter().map(row).collect();
            ui::print_table(["NAME", "TIER", "STATE", "CAN", "WHY NOT"], &rows);
        });
        Ok(())
    }
}

fn row(backend: &Backend) -> [String; 5] {
    let state = match (backend.on, backend.healthy) {
        (true, true) => "works",
        (true, false) => "away",
        (false, _) => "off",
    };
    [
        backend.name.clone(),
        backend.tier.as_ref().map(word).unwrap_or_default(),
        state.to_owned(),
        abilities(backend),
        backend.problems.join("; "),
    ]
}

/// The abilities in words, those that are missing left out.
fn abilities(backend: &Backend) -> String {
    let Some(able) = &backend.capabilities else { return String::new() };
    let has = |word: &str| word != "none";
    let words = [
        ("snapshots", has(&able.snapshots)),
        ("network", has(&able.network)),
        ("mounts", able.host_mounts),
        ("disk limits", matches!(able.disk_quota.as_str(), "project" | "image")),
        ("pause", able.freeze),
    ];
    let can: Vec<&str> = words.into_iter().filter(|(_, can)| *can).map(|(word, _)| word).collect();
    can.join(", ")
}

#[cfg(test)]
mod tests {
    use warren_wire::api::{BackendCapabilities, Tier};

    use super::*;

    #[test]
    fn a_row_says_what_it_can_and_why_not() {
        let able = BackendCapabilities {
            snapshots: "sealed".to_owned(),
            memory_snapshots: false,
            roots: vec!["layers".to_owned()],
            network: "none".to_owned(),
            host_mounts: true,
            disk_quota: "watched".to_owned(),
            freeze: true,
            outlives_server: true,
        };
        let works = Backend {
            name: "native".to_owned(),
            on: true,
            healthy: true,
            problems: Vec::new(),
            tier: Some(Tier::Namespaces),
            capabilities: Some(able),
        };
        assert_eq!(row(&works), ["native", "namespaces", "works", "snapshots, mounts, pause", ""]);
        let away = Backend { healthy: false, problems: vec!["no daemon".to_owned()], ..works.clone() };
        assert_eq!(row(&away)[2..], ["away", "snapshots, mounts, pause", "no daemon"]);
        let off = Backend { on: false, tier: None, capabilities: None, ..away };
        assert_eq!(row(&off), ["native", "", "off", "", "no daemon"]);
    }
}
