use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;
use warren_core::{ByteSize, LayerDriver};
use warren_server::assembly::{examine_data_dir, mount_pool};
use warren_store::pool::{self, Abilities, PoolError};

use crate::error::CliError;
use crate::global::Global;
use crate::local::require_root;
use crate::ui;
use crate::word::word;

/// Look at where sandboxes and snapshots are kept, or give them a btrfs in a file.
///
/// On btrfs the state of a busy sandbox is captured without copying it. A pool is such a file
/// system in one file beside the data directory, for machines that have no other. The server and
/// `warren run` mount it by themselves.
#[derive(Debug, Subcommand)]
pub(crate) enum Storage {
    /// Make a pool for an empty data directory, and mount it there.
    ///
    /// The file takes room on the disk only as it fills.
    Create {
        /// How large it may become, such as 20g
        #[arg(long)]
        size: ByteSize,
        /// Print what there is now as JSON
        #[arg(long)]
        json: bool,
    },
    /// Mount the pool on the data directory.
    Mount {
        /// Print what there is now as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the file system of the data directory, and which snapshot drivers it can have.
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Storage {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let data_dir = global.data_dir()?;
        match self {
            Self::Create { size, json } => create(&data_dir, size, json),
            Self::Mount { json } => mount(&data_dir, json),
            Self::Status { json } => {
                // It tries out what the file system can do.
                require_root()?;
                ui::show(json, &Found::at(&data_dir)?, Found::print);
                Ok(())
            }
        }
    }
}

fn create(data_dir: &Path, size: ByteSize, json: bool) -> Result<(), CliError> {
    require_root()?;
    examine_data_dir(data_dir)?;
    pool::create(data_dir, size.0).map_err(CliError::new)?;
    let pool = pool::file(data_dir);
    if let Err(error) = pool::mount(data_dir) {
        // It can be made again when the fault is mended.
        drop(std::fs::remove_file(&pool));
        return Err(CliError::new(error));
    }
    let free = ByteSize(pool.parent().and_then(free_bytes).unwrap_or(u64::MAX));
    if free < size {
        ui::complain(&format!(
            "the disk has only {free} left: if it fills before the pool does, what is written to the pool fails"
        ));
    }
    ui::show(json, &Found::at(data_dir)?, |_| {
        ui::tell(&format!("made {} and mounted it on {}", pool.display(), data_dir.display()));
        ui::tell("to use it: warren serve --set snapshots.driver=btrfs");
    });
    Ok(())
}

fn mount(data_dir: &Path, json: bool) -> Result<(), CliError> {
    require_root()?;
    let pool = pool::file(data_dir);
    if !pool.exists() {
        return Err(CliError::new(PoolError::Absent { pool }));
    }
    let done = if mount_pool(data_dir)? { "mounted" } else { "mounted already" };
    ui::show(json, &Found::at(data_dir)?, |_| ui::tell(&format!("{done} on {}", data_dir.display())));
    Ok(())
}

/// The storage of a data directory.
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
    /// The size that it may grow to.
    size_bytes: u64,
    /// The room that it takes on the disk.
    used_bytes: u64,
}

impl Found {
    /// Looks at a data directory, or at the place where it would be made.
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

    fn print(&self) {
        let pool = match &self.pool {
            None => "none".to_owned(),
            Some(pool) => format!(
                "{}, {}, takes {} of at most {}",
                pool.file.display(),
                if pool.mounted { "mounted" } else { "not mounted" },
                ByteSize(pool.used_bytes),
                ByteSize(pool.size_bytes)
            ),
        };
        ui::print(&format!("data directory  {}", self.data_dir.display()));
        ui::print(&format!("file system     {}, {} free", self.file_system, ByteSize(self.free_bytes)));
        ui::print(&format!("pool            {pool}"));
        ui::print(&format!("drivers         {}", self.driver_words()));
    }

    /// The drivers in words.
    pub(crate) fn driver_words(&self) -> String {
        self.drivers.iter().map(word).collect::<Vec<_>>().join(", ")
    }
}

fn free_bytes(place: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(place).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The file system's name in the table of mounts, whose last line for a directory counts.
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
