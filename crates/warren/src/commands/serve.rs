use std::path::PathBuf;

use clap::Args;
use warren_server::assembly::mount_pool;
use warren_server::{AnnouncedKey, Announcement, ServeError, ServeOptions};

use crate::error::CliError;
use crate::global::Global;
use crate::local::require_root;
use crate::settings::SettingFlags;
use crate::ui;

/// Serve sandboxes over HTTP, until told to end.
///
/// Sandboxes outlive the server: a new one on the same data directory takes over those that run.
/// The first start makes an API key and shows it once; commands on this machine find the server and
/// the key by themselves. Every setting is explained in docs/configuration.md.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    settings: SettingFlags,
    /// Write WARREN_URL and WARREN_API_KEY to this file once requests are answered; only its owner
    /// can read it
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// Revoke the local administrator's key and make another one, if it was lost or seen
    #[arg(long)]
    reset_key: bool,
    /// Stop all sandboxes at the end instead of leaving them running; their files stay
    #[arg(long)]
    stop_sandboxes: bool,
}

impl Serve {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        require_root()?;
        let mut loaded = self.settings.load(global)?;
        if mount_pool(&loaded.config.server.data_dir)? {
            // The file of settings may be in it.
            loaded = self.settings.load(global)?;
        }
        let options = ServeOptions {
            env_file: self.env_file,
            reset_key: self.reset_key,
            stop_sandboxes: self.stop_sandboxes,
            notify_socket: std::env::var_os("NOTIFY_SOCKET"),
            crash_at: global.crash_at.as_deref().map(str::parse).transpose().map_err(CliError::new)?,
        };
        warren_server::serve(loaded.config, options, announce).map_err(explain)
    }
}

/// Prints where the server is and what to type next.
fn announce(announcement: &Announcement) {
    let url = &announcement.url;
    ui::print(&format!("warren serves at {url}, with its data in {}", announcement.data_dir.display()));
    match &announcement.key {
        AnnouncedKey::New(key) => {
            ui::print(&format!("\n  export WARREN_URL={url}\n  export WARREN_API_KEY={key}\n"));
            ui::print(&e2b(announcement, Some(key)));
            ui::print(
                "This key may do everything, and is not shown again. Commands on this machine find it by themselves.",
            );
        }
        AnnouncedKey::Kept => {
            let path = announcement.data_dir.join("server.json");
            ui::print(&format!(
                "The key is in {}; commands on this machine find it by themselves.",
                path.display()
            ));
        }
        AnnouncedKey::None => {
            ui::print("It asks for no key.\n");
            ui::print(&e2b(announcement, None));
        }
        AnnouncedKey::Lost => {
            ui::print(
                "The local key is not in server.json any more: `warren serve --reset-key` makes another one.",
            );
        }
    }
    if let Some(reason) = &announcement.read_only {
        ui::print(&format!("\nNothing is changed until somebody has looked: {reason}"));
    }
    let warren = command(announcement);
    if let Some(reason) = &announcement.no_network {
        ui::print(&format!("\nSandboxes can have no network: {reason}\n`{warren} doctor` says what to do."));
    }
    ui::print(&format!(
        "\nIn another terminal:\n  {warren} create                a sandbox; prints its id\n  \
         {warren} exec ID uname -a      a command in it\n  {warren} ls                    all of them\n"
    ));
}

/// The variables that clients of the E2B protocol read.
fn e2b(announcement: &Announcement, key: Option<&str>) -> String {
    let variables = announcement.e2b.variables(key);
    let set = variables.lines().filter(|line| !line.starts_with('#'));
    let lines: String = set.map(|line| format!("  export {line}\n")).collect();
    format!("Clients of the E2B protocol take the same key:\n\n{lines}")
}

/// This program as it was called, with the data directory that is served.
fn command(announcement: &Announcement) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "warren".to_owned());
    match announcement.data_dir.to_str() {
        Some("/var/lib/warren") | None => program,
        Some(path) => format!("{program} --data-dir {path}"),
    }
}

fn explain(error: ServeError) -> CliError {
    match error {
        ServeError::Assembly(error) => error.into(),
        ServeError::Bind { .. } => CliError::new(error)
            .hint("choose another address with --listen, such as 127.0.0.1:0 for any free port"),
        _ => CliError::new(error),
    }
}
