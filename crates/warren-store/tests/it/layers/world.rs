use std::env;
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags};
use tempfile::TempDir;
use warren_core::{
    Copied, CopiedData, CopyOrder, Draft, LayerDriver, LayerError, LayerId, LayerStore, MountAccess,
    NewLayer, RootTree, SandboxId, Settled, Stack,
};
use warren_store::{LayerDirectory, TemplateStore, pool};

const CHILD: &str = "WARREN_TEST_PRIVATE_MOUNTS";
const POOL_BYTES: u64 = 512 << 20;
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// True in the run with mounts of its own. If not, that run has been made, and went well.
pub(crate) fn has_private_mounts(test: &str) -> bool {
    if env::var_os(CHILD).is_some() {
        return true;
    }
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("unshare is installed");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    false
}

/// On disk rather than in `/tmp`, which is often a tmpfs.
pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

pub(crate) fn run(program: &str, arguments: &[&str], paths: &[&Path]) {
    let output = Command::new(program).args(arguments).args(paths).output().expect(program);
    assert!(output.status.success(), "{program} {arguments:?} {paths:?}: {output:?}");
}

/// A data directory that is a btrfs of its own. Only where mounts are private.
pub(crate) struct Pool {
    scratch: TempDir,
}

impl Pool {
    pub(crate) fn new() -> Self {
        let pool = Self { scratch: scratch() };
        pool::create(&pool.data(), POOL_BYTES).unwrap();
        pool::mount(&pool.data()).unwrap();
        pool
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // At once, or the directory could not be removed; what is still open keeps the rest alive
        // for that long.
        drop(Command::new("umount").arg("--lazy").arg(self.data()).output());
    }
}

pub(crate) fn open(data: &Path, driver: LayerDriver) -> LayerDirectory {
    try_open(data, driver).unwrap()
}

pub(crate) fn try_open(data: &Path, driver: LayerDriver) -> Result<LayerDirectory, LayerError> {
    LayerDirectory::with_driver(data, TemplateStore::open(data).unwrap(), driver)
}

/// A sandbox's directory with two empty writable trees, and what else a backend keeps there.
pub(crate) fn area(data: &Path, name: &str) -> PathBuf {
    let area = data.join("sandboxes").join(name);
    fs::create_dir_all(&area).unwrap();
    furnish(area)
}

/// The same, but a btrfs subvolume.
pub(crate) fn subvolume_area(data: &Path, name: &str) -> PathBuf {
    let area = data.join("sandboxes").join(name);
    fs::create_dir_all(data.join("sandboxes")).unwrap();
    run("btrfs", &["subvolume", "create"], &[&area]);
    furnish(area)
}

fn furnish(area: PathBuf) -> PathBuf {
    for name in ["upper-0", "work-0/work/index", "upper-1", "work-1"] {
        fs::create_dir_all(area.join(name)).unwrap();
    }
    // Otherwise nothing would be written in a sandbox that does nothing.
    fs::set_permissions(area.join("upper-1"), fs::Permissions::from_mode(0o711)).unwrap();
    fs::write(area.join("record.json"), "{}").unwrap();
    fs::write(area.join("work-0/work/#3"), "half copied up").unwrap();
    area
}

pub(crate) fn layer(number: u8) -> LayerId {
    LayerId::from_random([number; 16])
}

pub(crate) fn new(id: &LayerId, created_unix_ms: u64) -> NewLayer {
    NewLayer { id: id.clone(), sandbox: Some(SandboxId::from_random([7; 16])), created_unix_ms }
}

/// Copies everything.
pub(crate) fn copy(store: &dyn LayerStore, area: &Path, into: &LayerId) -> Result<CopiedData, LayerError> {
    let order = CopyOrder { into, since: None, below: &[], bound: None };
    copy_as(store, area, &order).map(|copied| copied.expect("something is written").data)
}

/// `None`: there is nothing to be copied.
pub(crate) fn copy_as(
    store: &dyn LayerStore,
    area: &Path,
    order: &CopyOrder<'_>,
) -> Result<Option<Copied>, LayerError> {
    // Opened to name it alone, as backends do.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let area = rustix::fs::openat(CWD, area, flags, Mode::empty()).unwrap();
    let mut draft = match store.begin_copy(area.as_fd(), order)? {
        Draft::Unchanged => return Ok(None),
        Draft::Begun(draft) => draft,
        Draft::TooMuch(too_much) => panic!("{too_much}"),
    };
    match draft.settle()? {
        Settled::Done => draft.place().map(Some),
        Settled::Unchanged => Ok(None),
        Settled::TooMuch(too_much) => panic!("{too_much}"),
    }
}

/// Copies and commits.
pub(crate) fn keep(store: &dyn LayerStore, area: &Path, into: &LayerId) -> CopiedData {
    let copied = copy(store, area, into).unwrap();
    store.commit(&new(into, 1)).unwrap();
    copied
}

pub(crate) fn root() -> Vec<RootTree> {
    ["/", "/usr"].map(template_tree).into()
}

fn template_tree(at: &str) -> RootTree {
    let lowers = vec![Path::new("/template").join(at.trim_start_matches('/'))];
    RootTree { at: at.into(), lowers, access: MountAccess::ReadWrite }
}

pub(crate) fn lowers(store: &dyn LayerStore, stack: &[&LayerId]) -> Vec<Vec<PathBuf>> {
    let mut trees = root();
    let stack = Stack(stack.iter().copied().cloned().collect());
    store.stand_on(&stack, &mut trees).unwrap();
    trees.into_iter().map(|tree| tree.lowers).collect()
}

/// Names in the directory of layers, but for the lock.
pub(crate) fn names(data: &Path) -> Vec<String> {
    let entries = fs::read_dir(data.join("layers")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != ".lock");
    names.sort();
    names
}
