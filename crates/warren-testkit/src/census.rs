//! Counts what a data directory's sandboxes leave on the machine. All of it is known by the
//! directory's name and must be gone when a test ends, whatever else runs on the machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::groups;

/// How long a test waits for the removal in the background.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// One count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Census {
    /// Directories of sandboxes, by id.
    pub sandboxes: Vec<String>,
    /// Destroyed sandboxes that still have files.
    pub trash: Vec<String>,
    /// Claimed id ranges.
    pub ranges: Vec<String>,
    /// Processes in any group of the data directory's sandboxes.
    pub processes: Vec<String>,
    /// Ended children of this process that nobody has waited for.
    pub zombies: Vec<String>,
    /// Control groups of sandboxes, in every hierarchy.
    pub groups: Vec<PathBuf>,
    /// Loop devices whose image is in the data directory.
    pub loops: Vec<String>,
    /// This process's mount table.
    pub mounts: BTreeSet<String>,
}

impl Census {
    pub fn take(data_dir: &Path) -> Self {
        // Devices and the kernel name files by their real path.
        let data_dir = &data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
        let instance = groups::instance(data_dir);
        Self {
            sandboxes: names_of_all(data_dir, "sandboxes"),
            trash: names_of_all(data_dir, "trash"),
            ranges: names_in(&data_dir.join("ranges")),
            processes: instance.as_deref().map(processes_of).unwrap_or_default(),
            zombies: zombies(),
            groups: instance.as_deref().map(groups_of).unwrap_or_default(),
            loops: loops_below(data_dir),
            mounts: mounts(),
        }
    }

    /// Waits until nothing of the data directory's sandboxes is left.
    ///
    /// # Panics
    /// If something still is, with a list of it.
    #[track_caller]
    pub fn assert_clean(data_dir: &Path) {
        let deadline = Instant::now() + PATIENCE;
        let left = loop {
            let left = Self::take(data_dir).leftovers();
            if left.is_empty() || Instant::now() > deadline {
                break left;
            }
            std::thread::sleep(PAUSE);
        };
        assert!(left.is_empty(), "left behind in {}:\n{}", data_dir.display(), left.join("\n"));
    }

    /// Things of the data directory's sandboxes, one line each.
    pub fn leftovers(&self) -> Vec<String> {
        let groups: Vec<String> = self.groups.iter().map(|path| path.display().to_string()).collect();
        [
            ("sandbox", &self.sandboxes),
            ("trash", &self.trash),
            ("id range", &self.ranges),
            ("process", &self.processes),
            ("zombie", &self.zombies),
            ("control group", &groups),
            ("loop device", &self.loops),
        ]
        .iter()
        .flat_map(|(kind, items)| items.iter().map(move |item| format!("  {kind}: {item}")))
        .collect()
    }
}

/// The names in a directory of every backend's.
fn names_of_all(data_dir: &Path, part: &str) -> Vec<String> {
    let runtimes = names_in(&data_dir.join("oci")).into_iter();
    let places = runtimes.map(|runtime| data_dir.join("oci").join(runtime)).chain([data_dir.to_owned()]);
    places.flat_map(|place| names_in(&place.join(part))).collect()
}

/// A missing directory has no names.
fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

fn processes() -> impl Iterator<Item = u32> {
    names_in(Path::new("/proc")).into_iter().filter_map(|name| name.parse().ok())
}

fn processes_of(instance: &str) -> Vec<String> {
    let in_group = |line: &str| {
        let group = line.split_once("/warren/").and_then(|(_, rest)| rest.split('/').next());
        group.is_some_and(|group| groups::is_of(group, instance))
    };
    processes()
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.lines().any(in_group))
        })
        .map(|pid| format!("{pid} ({})", command_line(pid)))
        .collect()
}

fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
}

fn zombies() -> Vec<String> {
    let own = std::process::id().to_string();
    processes()
        .filter_map(|pid| {
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name is in parentheses and may itself hold any character.
            let (name, rest) = text.rsplit_once(") ")?;
            let mut fields = rest.split(' ');
            let is_ours = fields.next() == Some("Z") && fields.next() == Some(own.as_str());
            is_ours.then(|| format!("{name})"))
        })
        .collect()
}

fn groups_of(instance: &str) -> Vec<PathBuf> {
    let directories = |parent: PathBuf| {
        let names = names_in(&parent).into_iter();
        names.map(move |name| parent.join(name)).filter(|path| path.is_dir())
    };
    groups::parents(instance).into_iter().flat_map(directories).collect()
}

fn loops_below(data_dir: &Path) -> Vec<String> {
    names_in(Path::new("/sys/block"))
        .into_iter()
        .filter_map(|device| {
            let backing = fs::read_to_string(format!("/sys/block/{device}/loop/backing_file")).ok()?;
            Path::new(backing.trim_end())
                .starts_with(data_dir)
                .then(|| format!("{device} on {}", backing.trim_end()))
        })
        .collect()
}

fn mounts() -> BTreeSet<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().map(str::to_owned).collect()
}
