use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use warren_core::{ByteSize, LayerDriver};
use warren_server::assembly::{examine_data_dir, mount_pool};
use warren_store::pool::{self, Abilities, PoolError};

use super::word;
use crate::cli::Global;
use crate::error::CliError;
use crate::local::{data_dir, require_root};
use crate::ui;

/// Look at where sandboxes and snapshots are kept, or give them a btrfs in a file.
///
/// On btrfs the state of a busy sandbox is captured without copying it. A pool is such a file
/// system in one file beside the data directory, for machines that have no other. The server and
/// `warren run` mount it by themselves.
#[derive(Debug, Subcommand)]
pub(crate) enum Storage {
    Create(Create),
    Mount(Mount),
    Status(Status),
}

/// Make a pool for a data directory that is empty yet, and mount it there.
///
/// The file takes room on the disk only as it fills.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// How large it may become, such as 20g
    #[arg(long)]
    size: ByteSize,
}

/// Mount the pool on the data directory, if it is not.
#[derive(Debug, Args)]
pub(crate) struct Mount {}

/// Say what the data directory is on, and which drivers of snapshots it can have.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Storage {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let data_dir = data_dir(global)?;
        match self {
            Self::Create(args) => args.run(&data_dir),
            Self::Mount(Mount {}) => mount(&data_dir),
            Self::Status(args) => args.run(&data_dir),
        }
    }
}

impl Create {
    fn run(self, data_dir: &Path) -> Result<ExitCode, CliError> {
        require_root()?;
        examine_data_dir(data_dir)?;
        pool::create(data_dir, self.size.0).map_err(CliError::new)?;
        let pool = pool::file(data_dir);
        if let Err(error) = pool::mount(data_dir) {
            // Whoever mends what was wrong makes it again.
            drop(std::fs::remove_file(&pool));
            return Err(CliError::new(error));
        }
        let free = pool.parent().and_then(free_bytes).unwrap_or(u64::MAX);
        if free < self.size.0 {
            ui::complain(&format!(
                "the disk has only {} left: if it fills before the pool does, what is written to the pool fails",
                ByteSize(free)
            ));
        }
        ui::print(&format!("made {} and mounted it on {}", pool.display(), data_dir.display()));
        ui::print("to use it: warren serve --set snapshots.driver=btrfs");
        Ok(ExitCode::SUCCESS)
    }
}

fn mount(data_dir: &Path) -> Result<ExitCode, CliError> {
    require_root()?;
    let pool = pool::file(data_dir);
    if !pool.exists() {
        return Err(CliError::new(PoolError::Absent { pool }));
    }
    let fresh = mount_pool(data_dir)?;
    let done = if fresh { "mounted" } else { "mounted already" };
    ui::print(&format!("{done} on {}", data_dir.display()));
    Ok(ExitCode::SUCCESS)
}

/// What a data directory is on.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    data_dir: PathBuf,
    pub(crate) file_system: String,
    free_bytes: u64,
    pub(crate) drivers: Vec<LayerDriver>,
    pub(crate) pool: Option<FoundPool>,
}

#[derive(Debug, Serialize)]
pub(crate) struct FoundPool {
    pub(crate) file: PathBuf,
    pub(crate) mounted: bool,
    /// What it may become.
    size_bytes: u64,
    /// What it takes on the disk.
    used_bytes: u64,
}

impl Found {
    /// Of a data directory that does not exist yet: what it would be on.
    pub(crate) fn at(data_dir: &Path) -> Result<Self, CliError> {
        let place = data_dir.ancestors().find(|path| path.is_dir()).unwrap_or_else(|| Path::new("/"));
        let Abilities { reflink, btrfs } = pool::abilities(place).map_err(CliError::new)?;
        let possible =
            [(LayerDriver::Overlay, true), (LayerDriver::Reflink, reflink), (LayerDriver::Btrfs, btrfs)];
        let file = pool::file(data_dir);
        let pool = match file.metadata() {
            Ok(metadata) => Some(FoundPool {
                file,
                mounted: data_dir.is_dir() && pool::is_mounted(data_dir).map_err(CliError::new)?,
                size_bytes: metadata.len(),
                used_bytes: metadata.blocks() * 512,
            }),
            Err(_) => None,
        };
        Ok(Self {
            data_dir: data_dir.to_owned(),
            file_system: file_system(place),
            free_bytes: free_bytes(place).unwrap_or(0),
            drivers: possible.into_iter().filter_map(|(driver, can)| can.then_some(driver)).collect(),
            pool,
        })
    }

    /// The drivers in words.
    pub(crate) fn driver_words(&self) -> String {
        self.drivers.iter().map(word).collect::<Vec<_>>().join(", ")
    }
}

impl Status {
    fn run(self, data_dir: &Path) -> Result<ExitCode, CliError> {
        // What a file system can do is tried on it.
        require_root()?;
        let found = Found::at(data_dir)?;
        if self.json {
            ui::print_json(&found);
            return Ok(ExitCode::SUCCESS);
        }
        let line = |name: &str, value: &str| ui::print(&format!("{name:<15} {value}"));
        line("data directory", &found.data_dir.display().to_string());
        line("file system", &format!("{}, {} free", found.file_system, ByteSize(found.free_bytes)));
        line(
            "pool",
            &match &found.pool {
                None => "none".to_owned(),
                Some(pool) => format!(
                    "{}, {}, takes {} of at most {}",
                    pool.file.display(),
                    if pool.mounted { "mounted" } else { "not mounted" },
                    ByteSize(pool.used_bytes),
                    ByteSize(pool.size_bytes)
                ),
            },
        );
        line("drivers", &found.driver_words());
        Ok(ExitCode::SUCCESS)
    }
}

fn free_bytes(place: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(place).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The file system's name, as the table of mounts has it. Of several on one directory the last is
/// seen.
fn file_system(place: &Path) -> String {
    let Ok(place) = place.canonicalize() else { return "unknown".to_owned() };
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounts = table.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let on = left.split(' ').nth(4)?.replace("\\040", " ");
        place.starts_with(&on).then(|| (on.len(), right.split(' ').next().unwrap_or_default().to_owned()))
    });
    mounts.max_by_key(|(length, _)| *length).map_or_else(|| "unknown".to_owned(), |(_, name)| name)
}
