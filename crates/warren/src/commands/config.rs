use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use warren_server::config::{Loaded, Row, Sources};

use super::serve::SettingFlags;
use crate::cli::Global;
use crate::error::CliError;
use crate::ui;

/// Look at the server's settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    Check(Check),
    Print(Print),
}

/// Check a file of settings, or all settings that `warren serve` would use here.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Check this file alone
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Print every setting, and where its value came from.
#[derive(Debug, Args)]
pub(crate) struct Print {
    #[command(flatten)]
    settings: SettingFlags,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Config {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        match self {
            Self::Check(args) => args.run(global),
            Self::Print(args) => args.run(global),
        }
    }
}

impl Check {
    fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let loaded = match self.file {
            Some(file) => Loaded::load(&Sources { file: Some(file), ..Sources::default() })
                .map_err(|error| CliError::new(error).hint("docs/configuration.md has every setting"))?,
            None => SettingFlags::default().load(global)?,
        };
        ui::print(&match loaded.file {
            Some(path) => format!("{} is right", path.display()),
            None => "there is no file of settings; the rest is right".to_owned(),
        });
        Ok(ExitCode::SUCCESS)
    }
}

impl Print {
    fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let rows = self.settings.load(global)?.rows();
        if self.json {
            ui::print_json(&rows);
            return Ok(ExitCode::SUCCESS);
        }
        let cells: Vec<[String; 3]> = rows.into_iter().map(cells).collect();
        ui::print_table(["SETTING", "VALUE", "FROM"], &cells);
        Ok(ExitCode::SUCCESS)
    }
}

fn cells(row: Row) -> [String; 3] {
    let value = match serde_json::to_value(&row.value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    };
    [row.key.to_owned(), value, row.origin]
}
