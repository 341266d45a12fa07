//! Where the built-in template is kept.
//!
//! It is made of the machine and of nothing else, so data directories share one: what a machine has
//! looked for once, a new data directory need not look for again. They share it only where that
//! changes nothing for them: on the file system of the data directory, in a place that nobody but
//! root can change.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use warren_core::Shown;

/// In the data directory, where it is not shared.
const OWN: &str = "templates-host";

/// The place for a data directory, which exists, of a machine.
pub(crate) fn of(data: &Path, machine: &Path) -> PathBuf {
    let own = data.join(OWN);
    if machine != Path::new("/") {
        return own;
    }
    shared(Path::new(Shown::PLACE), data).unwrap_or(own)
}

/// The shared place, made if it is missing. None where anything about it is odd.
fn shared(place: &Path, data: &Path) -> Option<PathBuf> {
    // A data directory is its user's.
    let found = fs::metadata(data).ok().filter(|found| found.uid() == 0)?;
    let (device, parent) = (found.dev(), place.parent()?);
    let is_roots = |path: &Path| {
        let found = fs::symlink_metadata(path);
        found.is_ok_and(|found| found.is_dir() && found.uid() == 0 && found.mode() & 0o022 == 0)
    };
    if !parent.ancestors().all(is_roots) || fs::metadata(parent).ok()?.dev() != device {
        return None;
    }
    // Two processes may do it at the same time, and what is there is looked at.
    drop(DirBuilder::new().mode(0o700).create(place));
    let found = fs::symlink_metadata(place).ok()?;
    let is_closed = found.is_dir() && found.uid() == 0 && found.mode() & 0o077 == 0;
    (is_closed && found.dev() == device).then(|| place.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// A directory whose parents all are root's, with one for data and one for what is shared.
    fn ground() -> Option<(tempfile::TempDir, PathBuf, PathBuf)> {
        let ground = tempfile::tempdir_in("/var/lib").ok()?;
        let data = ground.path().join("data");
        fs::create_dir(&data).unwrap();
        let place = ground.path().join("shared");
        Some((ground, data, place))
    }

    #[test]
    fn it_is_shared_where_only_root_can_change_it() {
        let Some((ground, data, place)) = ground() else { return };
        assert_eq!(shared(&place, &data), Some(place.clone()), "it is made");
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(shared(&place, &data), Some(place.clone()), "and found");
        for open in [0o701, 0o770, 0o707] {
            fs::set_permissions(&place, fs::Permissions::from_mode(open)).unwrap();
            assert_eq!(shared(&place, &data), None, "{open:o}");
        }
        fs::remove_dir(&place).unwrap();
        symlink(&data, &place).unwrap();
        assert_eq!(shared(&place, &data), None, "a link");
        fs::remove_file(&place).unwrap();
        fs::set_permissions(ground.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(shared(&place, &data), None, "others may replace it");
        assert!(!place.exists());
    }

    #[test]
    fn another_file_system_or_machine_has_its_own() {
        let Some((ground, data, place)) = ground() else { return };
        assert_eq!(shared(&place, Path::new("/proc")), None, "another file system");
        assert!(!place.exists());
        assert_eq!(of(&data, ground.path()), data.join(OWN), "another machine's root");
    }
}
