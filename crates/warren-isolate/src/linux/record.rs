//! The record of a sandbox on disk, by which another process finds it again.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use warren_core::{CreateRequest, OwnerBond, RootTree, SandboxId, SandboxSpec};

use super::quota::QuotaKind;

const FILE: &str = "record.json";
const FORMAT: u32 = 1;
/// A larger file is not a record.
const MOST_BYTES: u64 = 4 << 20;
/// How long a record that may last waits for its way to the disk to be confirmed.
const SYNC_PAUSE: Duration = Duration::from_millis(100);

/// First written when the sandbox's agent has answered. A sandbox without a record is half made;
/// one with a record has been handed out, and its files belong to its owner.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    pub(super) id: SandboxId,
    pub(super) spec: SandboxSpec,
    pub(super) owner: OwnerBond,
    #[serde(default)]
    pub(super) stage: Stage,
    pub(super) pid: u32,
    /// The process's start time in clock ticks since boot. With the pid and the boot it identifies
    /// one process.
    pub(super) pid_started: u64,
    #[serde(default)]
    boot: String,
    pub(super) id_base: u32,
    pub(super) quota: QuotaKind,
    /// The trees that its root is made of.
    #[serde(default)]
    pub(super) root: Vec<RootTree>,
    /// The layers among these that it wrote itself. They count as its disk usage.
    #[serde(default)]
    pub(super) own: Vec<PathBuf>,
    pub(super) created_unix_ms: u64,
}

/// The stage of a sandbox that has been handed out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// Its agent has answered. It may have ended since.
    #[default]
    Started,
    /// Only its files are left.
    Halted,
    /// It is being started again from its files.
    Resuming,
    /// Its processes are being put on disk.
    Suspending,
}

impl Record {
    /// `pid` is the sandbox's first process, alive at this moment. `kept` is the sandbox's record
    /// if it ran before.
    pub(super) fn new(
        request: &CreateRequest,
        pid: u32,
        id_base: u32,
        quota: QuotaKind,
        kept: Option<&Self>,
    ) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        Self {
            format: FORMAT,
            id: request.id.clone(),
            spec: request.spec.clone(),
            owner: request.owner,
            stage: Stage::Started,
            pid,
            pid_started: start_time(pid).unwrap_or(0),
            boot: this_boot().to_owned(),
            id_base,
            quota,
            root: Vec::new(),
            own: kept.map(|kept| kept.own.clone()).unwrap_or_default(),
            created_unix_ms: kept.map_or(now, |kept| kept.created_unix_ms),
        }
        .standing_on(request.root.trees().to_vec(), None)
    }

    /// The same sandbox on another root, with one more layer that it wrote.
    pub(super) fn standing_on(&self, root: Vec<RootTree>, written: Option<&Path>) -> Self {
        let mut own = self.own.clone();
        own.extend(written.filter(|layer| !self.own.iter().any(|own| own == layer)).map(Path::to_owned));
        own.retain(|layer| root.iter().flat_map(|tree| &tree.lowers).any(|lower| lower.starts_with(layer)));
        Self { root, own, ..self.clone() }
    }

    /// Written while the directory's lock is held, and put in place in one step.
    pub(super) fn store(&self, directory: &Path) -> io::Result<()> {
        place(self, directory, FILE, |_| Ok(()))
    }

    /// Writes a record that is to take the place of this one soon. Its way to the disk begins here,
    /// so that nobody waits for it when it is put in place.
    pub(super) fn stage(&self, directory: &Path) -> io::Result<Staged> {
        let staging = staging_of(directory, FILE);
        let file = fs::File::create(&staging)?;
        let staged = Staged { record: Some(self.clone()), directory: directory.to_owned() };
        (&file).write_all(&serde_json::to_vec(self)?)?;
        // A file that replaces another one is written out first by some file systems. This only
        // begins it earlier, and matters to nobody if it fails.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        Ok(staged)
    }

    /// Writes another stage. Nobody waits for the disk: after a power cut every stage means that
    /// the sandbox does not run. But the record itself must not be lost then, so it is on its way
    /// to the disk when it is put in place.
    pub(super) fn enter(&self, stage: Stage, directory: &Path) -> io::Result<()> {
        self.at(stage).stage(directory)?.put().map(drop)
    }

    /// As [`Record::enter`], for a stage that may last. Soon after, whatever the file system, the
    /// record is safe from a power cut.
    pub(super) fn enter_for_long(&self, stage: Stage, directory: &Path) -> io::Result<()> {
        self.enter(stage, directory)?;
        let path = directory.join(FILE);
        let sync = move || {
            // A sandbox that goes back to an earlier state is started again at once, and would wait
            // for this.
            std::thread::sleep(SYNC_PAUSE);
            drop(fs::File::open(path).and_then(|record| record.sync_all()));
        };
        // Without a thread the kernel writes it by itself, a little later.
        drop(std::thread::Builder::new().name("warren-record".to_owned()).spawn(sync));
        Ok(())
    }

    /// The same sandbox with another spec.
    pub(super) fn of(&self, spec: &SandboxSpec) -> Self {
        Self { spec: spec.clone(), ..self.clone() }
    }

    /// The same sandbox at another stage.
    pub(super) fn at(&self, stage: Stage) -> Self {
        Self { stage, ..self.clone() }
    }

    /// `None` if there is no record, or none that this version can read.
    pub(super) fn load(directory: &Path) -> Option<Self> {
        let mut text = Vec::new();
        fs::File::open(directory.join(FILE)).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice::<Self>(&text).ok().filter(|record| record.format == FORMAT)
    }

    /// True if there is a record, readable or not.
    pub(super) fn exists(directory: &Path) -> bool {
        directory.join(FILE).symlink_metadata().is_ok()
    }

    /// True if the recorded process is the one that has the pid now.
    pub(super) fn is_alive(&self) -> bool {
        self.stage == Stage::Started
            && self.boot == this_boot()
            && start_time(self.pid).is_some_and(|started| started == self.pid_started)
    }
}

/// A record that is written but not in place. It is removed if it never gets there.
#[derive(Debug)]
pub(super) struct Staged {
    record: Option<Record>,
    directory: PathBuf,
}

impl Staged {
    /// Puts the record in place, in one step.
    pub(super) fn put(mut self) -> io::Result<Record> {
        fs::rename(staging_of(&self.directory, FILE), self.directory.join(FILE))?;
        self.record.take().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.record.is_some() {
            drop(fs::remove_file(staging_of(&self.directory, FILE)));
        }
    }
}

fn staging_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(name).with_extension("new")
}

/// Writes a file of a sandbox's directory, calls `finish` on it, and puts it in place in one step.
pub(crate) fn place(
    content: &impl Serialize,
    directory: &Path,
    name: &str,
    finish: impl FnOnce(&fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let staging = staging_of(directory, name);
    let mut file = fs::File::create(&staging)?;
    let written = file.write_all(&serde_json::to_vec(content)?).and_then(|()| finish(&file));
    let placed = written.and_then(|()| fs::rename(&staging, directory.join(name)));
    placed.inspect_err(|_| drop(fs::remove_file(&staging)))
}

/// The id of this boot: pids and start times begin anew with each.
pub(crate) fn this_boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        text.trim().to_owned()
    })
}

/// Field 22 of `/proc/PID/stat`; absent for a process that is gone or a zombie.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is in parentheses and may itself contain spaces and parentheses.
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use warren_core::{Root, RootState, TemplateName};

    use super::*;

    fn of_this_process() -> Record {
        let request = CreateRequest {
            id: SandboxId::from_random([1; 16]),
            spec: SandboxSpec::new(TemplateName::host()),
            root: Root::Layers(Vec::new()),
            state: RootState::Fresh,
            env: Vec::new(),
            user: None,
            workdir: None,
            owner: OwnerBond::Outlives,
            network: None,
            disk_limit_required: false,
            memory: None,
        };
        Record::new(&request, std::process::id(), 0, QuotaKind::Watched, None)
    }

    #[test]
    fn a_number_that_another_process_has_now_is_not_alive() {
        let record = of_this_process();
        assert!(record.is_alive());
        assert!(!Record { pid_started: record.pid_started + 1, ..record.clone() }.is_alive());
        assert!(!Record { boot: "another".to_owned(), ..record.clone() }.is_alive());
        assert!(!Record { pid: u32::MAX, ..record.clone() }.is_alive());
        assert!(!record.at(Stage::Halted).is_alive() && !record.at(Stage::Resuming).is_alive());
    }

    #[test]
    fn a_staged_record_counts_once_it_is_put_in_place() {
        let place = tempfile::tempdir().unwrap();
        let record = of_this_process();
        record.store(place.path()).unwrap();
        let count = || fs::read_dir(place.path()).unwrap().count();
        let halted = record.at(Stage::Halted).stage(place.path()).unwrap();
        assert_eq!((Record::load(place.path()).unwrap().stage, count()), (Stage::Started, 2));
        assert_eq!(halted.put().unwrap().stage, Stage::Halted);
        assert_eq!((Record::load(place.path()).unwrap().stage, count()), (Stage::Halted, 1));
        drop(record.stage(place.path()).unwrap());
        assert_eq!((Record::load(place.path()).unwrap().stage, count()), (Stage::Halted, 1));
    }

    #[test]
    fn a_record_is_replaced_as_a_whole_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        assert!(Record::load(place.path()).is_none() && !Record::exists(place.path()));
        let record = of_this_process();
        record.store(place.path()).unwrap();
        record.enter(Stage::Halted, place.path()).unwrap();
        let halted = Record::load(place.path()).unwrap();
        assert_eq!((halted.stage, halted.pid), (Stage::Halted, std::process::id()));
        assert!(record.enter(Stage::Halted, Path::new("/nowhere")).is_err());
        fs::write(place.path().join(FILE), "{\"format\": 2}").unwrap();
        assert!(Record::load(place.path()).is_none() && Record::exists(place.path()));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing else is left");
    }
}
