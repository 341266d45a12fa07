//! The server as a service of systemd: its unit, and what there is to say of it.

mod rest;
mod systemd;
mod unit;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{fs, thread};

use clap::{Args, Subcommand};
use serde::Serialize;
use warren_server::assembly::examine_data_dir;
use warren_wire::api::{Health, HealthStatus};

use self::systemd::{journal, state, systemctl};
use self::unit::{PACKAGED_UNITS, REST_UNIT, UNIT, Unit};
use crate::error::CliError;
use crate::exit::{NO, NOT_RUNNING};
use crate::global::Global;
use crate::local::require_root;
use crate::server::Place;
use crate::settings::SettingFlags;
use crate::ui;
use crate::word::word;

/// The wait for a server's first answer, with the look at the sandboxes that it finds.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);

/// Have systemd keep the server running.
///
/// The server then starts with the machine, and again whenever it ends. Sandboxes and their
/// processes outlive a restart of the service. When the machine goes down they are ended first, and
/// their files are kept.
#[derive(Debug, Subcommand)]
pub(crate) enum Service {
    Install(Install),
    /// End the service and remove its unit; data stays, and running sandboxes go on.
    Uninstall(AsJson),
    /// Show the state of the service: the unit, the server's health and version, and its sandboxes.
    ///
    /// Exit code 0 when the server answers and can do its work, 1 when it refuses new work or does
    /// not answer, 3 when the service does not run.
    Status(AsJson),
    Rest(Rest),
}

#[derive(Debug, Args)]
pub(crate) struct AsJson {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The service, as JSON shows it.
#[derive(Debug, Default, Serialize)]
struct Told {
    installed: bool,
    active: bool,
    /// The unit's state, in the words of systemd.
    state: Option<String>,
    data_dir: Option<PathBuf>,
    url: Option<String>,
    health: Option<Health>,
}

/// Write the unit, start it now and at every start of the machine, and wait until the server
/// answers.
///
/// Run again, it brings the unit up to date with this program and these options, and restarts the
/// service.
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// Have the server read its settings from this file [default: /etc/warren/warren.yaml, else
    /// warren.yaml in the data directory]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Have the server listen on this address [default: what the settings say]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Only print the unit
    #[arg(long)]
    print: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "print")]
    json: bool,
}

/// End sandboxes that no server looks after, when the machine goes down; files stay.
///
/// The service calls this by itself. On a machine without systemd, have it run `warren service rest
/// --now` before it goes down.
#[derive(Debug, Args)]
pub(crate) struct Rest {
    /// Do it although the machine stays up
    #[arg(long)]
    now: bool,
}

impl Service {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        match self {
            Self::Install(args) => args.run(global),
            Self::Uninstall(args) => uninstall(args.json),
            Self::Status(args) => status(global, args.json),
            Self::Rest(args) => rest::rest(global, args.now).map(|()| ExitCode::SUCCESS),
        }
    }
}

impl Install {
    fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let unit = self.unit(global)?;
        if self.print {
            ui::print(&format!("# {UNIT}\n{}\n# {REST_UNIT}\n{}", unit.text(), unit.rest_text().trim_end()));
            return Ok(ExitCode::SUCCESS);
        }
        require_systemd()?;
        require_root()?;
        require_own_program(&unit.program)?;
        let server = global.at(unit.data_dir.clone());
        // Settings that the service could not start with are refused now.
        SettingFlags::of(unit.config.clone(), unit.listen.clone()).load(&server)?;
        examine_data_dir(&unit.data_dir)?;
        let before = state()?;
        if !before.is_active() && matches!(server.place(), Ok(Place::Server(_))) {
            return Err(CliError::new(format!("a server already uses {}", unit.data_dir.display()))
                .hint("end it, and install the service then: its sandboxes go on"));
        }
        for (path, text) in [(UNIT, unit.text()), (REST_UNIT, unit.rest_text())] {
            fs::write(path, text).map_err(|error| CliError::new(format!("write {path}: {error}")))?;
        }
        systemctl(&["enable", "--quiet", "--no-reload", "warren.service", "warren-rest.service"])?;
        systemctl(&["daemon-reload"])?;
        systemctl(&["start", "warren-rest.service"])?;
        // Restart starts it too. Its own message says nothing about the reason of a failure.
        drop(systemctl(&["restart", "warren.service"]));
        let health = wait(&server)?;
        let told = Told {
            installed: true,
            active: true,
            state: Some(state()?.to_string()),
            data_dir: Some(unit.data_dir.clone()),
            url: server.announced_url(),
            health: Some(health),
        };
        ui::show(self.json, &told, |told| tell(told, &unit));
        Ok(ExitCode::SUCCESS)
    }

    fn unit(&self, global: &Global) -> Result<Unit, CliError> {
        let program = std::env::current_exe().map_err(CliError::new)?;
        let config = self.config.as_ref().map(std::path::absolute).transpose().map_err(CliError::new)?;
        let flags = SettingFlags::of(config.clone(), self.listen.clone());
        // The file of settings may name the data directory.
        let data_dir = match &global.data_dir {
            Some(_) => global.data_dir()?,
            None => flags.load(global)?.config.server.data_dir,
        };
        Ok(Unit { program, data_dir, config, listen: self.listen.clone() })
    }
}

fn tell(told: &Told, unit: &Unit) {
    let data_dir = unit.data_dir.display();
    let url = told.url.as_deref().unwrap_or("an address of its own");
    ui::print(&format!("warren.service runs, and starts with the machine. It serves at {url}"));
    if told.health.as_ref().is_some_and(|health| health.status != HealthStatus::Ok) {
        ui::print("It has something to say: see `warren health`.");
    }
    ui::print(&format!("  unit     {UNIT}"));
    ui::print(&format!("  data     {data_dir}"));
    ui::print(&format!(
        "  the key  in {data_dir}/server.json; commands of root on this machine find it by themselves"
    ));
    ui::print("  the log  journalctl -u warren -f");
    let named = if unit.data_dir == Path::new("/var/lib/warren") {
        String::new()
    } else {
        format!("--data-dir {data_dir} ")
    };
    ui::print(&format!("\nTry:\n  id=$(warren {named}create) && warren {named}exec \"$id\" uname -a"));
}

fn uninstall(json: bool) -> Result<ExitCode, CliError> {
    require_systemd()?;
    require_root()?;
    let Some(data_dir) = installed()? else {
        return Err(CliError::new("the service is not installed").hint("`warren service install` does that"));
    };
    systemctl(&["disable", "--quiet", "--now", "warren.service", "warren-rest.service"])?;
    // Those of a package stay, without being started.
    for path in [REST_UNIT, UNIT].map(Path::new).into_iter().filter(|path| path.exists()) {
        fs::remove_file(path).map_err(|error| CliError::at(path, error))?;
    }
    systemctl(&["daemon-reload"])?;
    // Otherwise a unit that failed is listed for ever.
    drop(systemctl(&["reset-failed", "--quiet", "warren.service"]));
    let text = format!(
        "The service is removed. What it kept is still in {}, and sandboxes that ran go on: `warren serve` takes them over.",
        data_dir.display()
    );
    ui::show(json, &Told { data_dir: Some(data_dir), ..Told::default() }, |_| ui::tell(&text));
    Ok(ExitCode::SUCCESS)
}

fn status(global: &Global, json: bool) -> Result<ExitCode, CliError> {
    require_systemd()?;
    let mut told = Told::default();
    if let Some(data_dir) = installed()? {
        let state = state()?;
        told = Told { installed: true, active: state.is_active(), state: Some(state.to_string()), ..told };
        if told.active {
            let server = global.at(data_dir.clone());
            told.health = Some(server.client()?.health()?);
            told.url = server.announced_url();
        }
        told.data_dir = Some(data_dir);
    }
    ui::show(json, &told, Told::print);
    Ok(match &told.health {
        None => ExitCode::from(NOT_RUNNING),
        Some(health) if health.status == HealthStatus::Critical => ExitCode::from(NO),
        Some(_) => ExitCode::SUCCESS,
    })
}

impl Told {
    fn print(&self) {
        let Some(state) = &self.state else {
            return ui::print("unit       not installed: `warren service install` does that");
        };
        ui::print(&format!("unit       {state}"));
        let data_dir = self.data_dir.as_deref().unwrap_or_else(|| Path::new(""));
        ui::print(&format!("data       {}", data_dir.display()));
        let Some(health) = &self.health else {
            return journal(5).lines().for_each(|line| ui::print_plain(&format!("           {line}")));
        };
        ui::print(&format!("url        {}", self.url.as_deref().unwrap_or_default()));
        ui::print(&format!("health     {}", word(&health.status)));
        if let Some(details) = &health.details {
            details.problems.iter().for_each(|problem| ui::print_plain(&format!("           {problem}")));
            ui::print(&format!("version    {}", details.version));
            ui::print(&format!("sandboxes  {} of {}", details.sandboxes, details.max_sandboxes));
        }
    }
}

/// Waits until the server answers, or the unit has given up.
fn wait(server: &Global) -> Result<Health, CliError> {
    let begun = Instant::now();
    loop {
        if let Ok(health) = server.client().and_then(|client| Ok(client.health()?)) {
            return Ok(health);
        }
        let state = state()?;
        if state.has_failed() || begun.elapsed() > PATIENCE {
            return Err(CliError::new(format!("the service does not answer: it is {state}"))
                .hint(journal(10))
                .hint("`journalctl -u warren` has the rest; `warren service install` tries again"));
        }
        thread::sleep(PAUSE);
    }
}

/// The data directory of the service, if it is installed: by `warren service install`, or by a
/// package whose unit somebody enabled or started.
fn installed() -> Result<Option<PathBuf>, CliError> {
    for path in [UNIT].into_iter().chain(PACKAGED_UNITS) {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(CliError::at(Path::new(path), error)),
        };
        if path != UNIT && !state()?.is_wanted() {
            continue;
        }
        return Unit::data_dir_in(&text).map(Some).ok_or_else(|| {
            CliError::new(format!("{path} was not written by `warren service install`"))
                .hint("take it away, and install the service again")
        });
    }
    Ok(None)
}

fn require_systemd() -> Result<(), CliError> {
    // As systemd's own sd_booted does.
    if Path::new("/run/systemd/system").is_dir() {
        return Ok(());
    }
    Err(CliError::new("this machine is not run by systemd").hint(
        "have what runs it start `warren serve` as root, and send SIGTERM to that process alone to end it",
    ))
}

/// Refuses a program that others than root can change: root runs it at every start.
fn require_own_program(program: &Path) -> Result<(), CliError> {
    let status = fs::metadata(program).map_err(CliError::new)?;
    if status.uid() == 0 && status.mode() & 0o022 == 0 {
        return Ok(());
    }
    let program = program.display();
    Err(CliError::new(format!(
        "{program} can be changed by others than root, who would then run anything as root"
    ))
    .hint(format!("install -m 755 {program} /usr/local/bin/warren && /usr/local/bin/warren service install")))
}
