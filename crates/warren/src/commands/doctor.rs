use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use warren_core::{Check, CheckStatus};
use warren_server::assembly::{examine_data_dir, examine_network, lxd_place};
use warren_server::config::Config;
use warren_server::{BACKENDS, Backend, ExaminedMachine};
use warren_store::hidden_names;

use super::storage::Found;
use crate::error::CliError;
use crate::exit::FAILED;
use crate::global::Global;
use crate::local::{is_root, sudo};
use crate::settings::SettingFlags;
use crate::ui;
use crate::word::word;

/// Check what sandboxes need of this machine, and say how to get what is missing.
///
/// Exits with 0 if sandboxes can be made.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The checks of one part of the machine.
struct Section {
    name: String,
    checks: Vec<Check>,
}

/// A check, as JSON shows it.
#[derive(Serialize)]
struct Row<'a> {
    section: &'a str,
    #[serde(flatten)]
    check: &'a Check,
}

impl Section {
    fn failed(&self) -> bool {
        self.checks.iter().any(|check| check.status == CheckStatus::Failed)
    }

    fn print(&self) {
        ui::print(&format!("{}\n", self.name));
        for check in &self.checks {
            let mark = match check.status {
                CheckStatus::Ok => "ok     ",
                CheckStatus::Warning => "warning",
                CheckStatus::Failed => "FAILED ",
            };
            ui::print(&format!("  {mark}  {:<22} {}", check.name, check.found));
            if !check.advice.is_empty() {
                ui::print(&format!("           {:<22} → {}", "", check.advice));
            }
        }
        ui::print("");
    }
}

impl Doctor {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let data_dir = global.data_dir()?;
        let settings = SettingFlags::default().load(global).map(|loaded| loaded.config);
        let (backends, off) = match &settings {
            Ok(config) => backends(config, &data_dir),
            Err(_) => backends(&Config::default(), &data_dir),
        };
        let others = if is_root() { others(&settings, &data_dir) } else { Vec::new() };
        let usable = backends.iter().any(|backend| !backend.failed());
        let usable = usable && !others.iter().any(Section::failed);
        let sections: Vec<Section> = backends.into_iter().chain(off).chain(others).collect();
        if self.json {
            let rows = sections.iter().flat_map(|Section { name, checks }| {
                checks.iter().map(move |check| Row { section: name, check })
            });
            ui::print_json(&rows.collect::<Vec<_>>());
        } else {
            sections.iter().for_each(Section::print);
            ui::print(match usable {
                true => "sandboxes can be made on this machine",
                false if is_root() => "sandboxes cannot be made on this machine yet",
                false => "sandboxes cannot be made by this user: see what root can do",
            });
            if !is_root() {
                ui::print(&format!("  {}", sudo::this_command()));
            }
        }
        Ok(if usable { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

/// Checks the machine for each backend: those that are on first. Of those that are off only what is
/// not told already, and nothing of that is a failure.
fn backends(config: &Config, data_dir: &Path) -> (Vec<Section>, Vec<Section>) {
    let (lxd, docker) = (lxd_place(config), config.backends.docker());
    let machine = ExaminedMachine { data_dir, docker: &docker, lxd: &lxd };
    let section = |backend: &Backend, off: &str| Section {
        name: format!("backend {}{off}", backend.name),
        checks: backend.examine(&machine),
    };
    let enabled: Vec<&Backend> = config.backends.enabled.iter().collect();
    let on: Vec<Section> = enabled.iter().map(|backend| section(backend, "")).collect();
    let is_told = |check: &Check| {
        on.iter()
            .flat_map(|section| &section.checks)
            .any(|told| told.name == check.name && told.found == check.found)
    };
    let off = BACKENDS.iter().filter(|backend| !enabled.contains(backend)).map(|backend| {
        let mut section = section(backend, ", which is not on (setting `backends.enabled`)");
        section.checks.retain(|check| !is_told(check));
        for check in &mut section.checks {
            if check.status == CheckStatus::Failed {
                check.status = CheckStatus::Warning;
            }
        }
        section
    });
    let off = off.collect();
    (on, off)
}

/// Checks storage and network, which all backends share.
fn others(settings: &Result<Config, CliError>, data_dir: &Path) -> Vec<Section> {
    let storage = vec![place(data_dir), private_names(), snapshots(settings)];
    vec![
        Section { name: "storage".to_owned(), checks: storage },
        Section { name: "network".to_owned(), checks: examine_network() },
    ]
}

/// Checks that the data directory can be used as one.
fn place(data_dir: &Path) -> Check {
    let (status, found, advice) = match examine_data_dir(data_dir) {
        Ok(_) => (CheckStatus::Ok, data_dir.display().to_string(), String::new()),
        Err(error) => {
            let advice = error.advice().unwrap_or_default();
            (CheckStatus::Failed, CliError::new(error).chain(), advice)
        }
    };
    Check { name: "data directory", status, found, advice }
}

/// Counts the machine's own files that are hidden from sandboxes.
fn private_names() -> Check {
    let (status, found, advice) = match hidden_names() {
        Ok(count) => {
            let found = format!("hidden from every sandbox: {count} in /usr that not everybody may read");
            (CheckStatus::Ok, found, "")
        }
        Err(error) => {
            let advice = "template `host` cannot be used: mend /usr, or import a template";
            (CheckStatus::Failed, CliError::new(error).chain(), advice)
        }
    };
    Check { name: "private files", status, found, advice: advice.to_owned() }
}

/// Checks that the disk can do the snapshots that the settings ask for.
fn snapshots(settings: &Result<Config, CliError>) -> Check {
    let check =
        |status, found, advice: &str| Check { name: "snapshots", status, found, advice: advice.to_owned() };
    let config = match settings {
        Ok(config) => config,
        Err(error) => {
            return check(CheckStatus::Warning, error.chain(), "mend the settings: `warren config check`");
        }
    };
    let driver = config.snapshots.driver;
    let found = match Found::at(&config.server.data_dir) {
        Ok(found) => found,
        Err(error) => return check(CheckStatus::Warning, error.chain(), "look at the data directory's disk"),
    };
    if let Some(pool) = found.pool.as_ref().filter(|pool| !pool.mounted) {
        let text = format!("{}: the pool {} is not mounted", word(&driver), pool.file.display());
        return check(CheckStatus::Ok, text, "the next start mounts it, and `warren storage mount` does");
    }
    let text =
        format!("{}; on this {} there could be: {}", word(&driver), found.file_system, found.driver_words());
    if found.drivers.contains(&driver) {
        return check(CheckStatus::Ok, text, "");
    }
    check(
        CheckStatus::Warning,
        text,
        "the server will not start: set snapshots.driver to one of these, or make a pool: `warren storage create`",
    )
}
