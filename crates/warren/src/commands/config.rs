use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;
use warren_server::config::{Loaded, Row, Sources};

use crate::error::CliError;
use crate::global::Global;
use crate::settings::SettingFlags;
use crate::ui;
use crate::word::word;

/// Look at the server's settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Check a file of settings, or all settings that `warren serve` would use here.
    Check {
        /// Check this file alone
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print every setting, and where its value came from.
    Print {
        #[command(flatten)]
        settings: SettingFlags,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Config {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        match self {
            Self::Check { file, json } => check(file, global, json)?,
            Self::Print { settings, json } => {
                let rows = settings.load(global)?.rows();
                let cells = |row: &Row| [row.key.to_owned(), word(&row.value), row.origin.clone()];
                ui::show_table(json, ["SETTING", "VALUE", "FROM"], &rows, cells);
            }
        }
        Ok(())
    }
}

/// Settings that can be used; others are an error.
#[derive(Debug, Serialize)]
struct Checked {
    file: Option<PathBuf>,
    valid: bool,
}

fn check(file: Option<PathBuf>, global: &Global, json: bool) -> Result<(), CliError> {
    let loaded = match file {
        Some(file) => Loaded::load(&Sources { file: Some(file), ..Sources::default() })
            .map_err(|error| CliError::new(error).hint("docs/configuration.md has every setting"))?,
        None => SettingFlags::default().load(global)?,
    };
    ui::show(json, &Checked { file: loaded.file.clone(), valid: true }, |checked| {
        ui::tell(&match &checked.file {
            Some(path) => format!("{} is right", path.display()),
            None => "there is no file of settings; the rest is right".to_owned(),
        });
    });
    Ok(())
}
