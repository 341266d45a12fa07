//! A layer that hides what in the machine's own `/usr` is not for everybody.
//!
//! That nobody inside reads such files, the kernel sees to, from the first moment of each
//! ([`warren_core::Shown`]). This layer takes their names away too. It is made by looking through
//! all of `/usr`, which takes half a second or so: once, and again when the machine's packages
//! changed, which a few `stat` calls tell, or when a server has not looked for a while. A server
//! looks in the background, and meanwhile goes on with the layer there is.
//!
//! ```text
//! <place>/usr.json                which layer is right, and when that was found
//! <place>/usr-<digest>/hidden/    the layer: never changed, named by its content
//! <place>/usr-<digest>/boot       in which boot it was made
//! ```
//!
//! Sandboxes that run keep their layer. Those of an earlier boot are used by nobody, and are
//! removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use warren_core::Shown;

use super::private::Private;
use super::{BOOT, HostError, is_of_boot, publish, survey};
use crate::digest::Digest;
use crate::staging::{NamesLock, Staging};

/// Raise it when what is hidden is told otherwise.
const FORMAT: u32 = 3;
const FINDING: &str = "usr.json";
const PREFIX: &str = "usr-";

/// After so long a server looks again, whatever the machine says.
const LOOK_AGAIN: Duration = Duration::from_secs(600);
/// Not sooner than this, however often the machine changes.
const LOOK_PAUSE: Duration = Duration::from_secs(10);

/// Paths that change with the machine's packages: the package managers' own books, and the
/// directories that most packages have a part in.
const WATCHED: &[&str] = &[
    "var/lib/dpkg/status",
    "var/lib/rpm/rpmdb.sqlite",
    "var/lib/rpm/Packages",
    "usr/lib/sysimage/rpm/rpmdb.sqlite",
    "var/lib/pacman/local",
    "lib/apk/db/installed",
    "usr",
    "usr/bin",
    "usr/sbin",
    "usr/lib",
    "usr/lib64",
    "usr/libexec",
    "usr/share",
    "usr/src",
    "usr/local",
    "usr/local/bin",
    "usr/local/etc",
    "usr/local/lib",
    "usr/local/sbin",
    "usr/local/share",
];

/// The urgency of a look through `/usr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// The caller waits, since this process may end at once.
    AtOnce,
    /// Nobody, unless there is no layer at all.
    Background,
}

/// Finds the layer that is right, or makes it. Clones share what is under way.
#[derive(Debug, Clone)]
pub(crate) struct Hider {
    pace: Pace,
    looking: Arc<AtomicBool>,
    /// Held by the one look that others wait for.
    turn: Arc<Mutex<()>>,
}

/// The result of the last look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Finding {
    format: u32,
    boot: String,
    /// The machine's stamp before it.
    stamp: String,
    layer: String,
    looked_unix: u64,
}

impl Hider {
    pub(crate) fn new() -> Self {
        Self { pace: Pace::AtOnce, looking: Arc::default(), turn: Arc::default() }
    }

    pub(crate) fn in_background(self) -> Self {
        Self { pace: Pace::Background, ..self }
    }

    /// The layer for this machine's `/usr`.
    pub(super) fn layer(&self, place: &Path, machine: &Path, boot: &str) -> Result<PathBuf, HostError> {
        let stamp = stamp(machine);
        let known = Finding::load(place, boot);
        match (known, self.pace) {
            (Some(known), Pace::AtOnce) if known.stamp == stamp => Ok(known.path(place)),
            (Some(known), Pace::Background) => {
                if known.is_old(&stamp) {
                    self.look_later(place, machine, boot);
                }
                Ok(known.path(place))
            }
            _ => {
                let _turn = self.turn.lock();
                match Finding::load(place, boot).filter(|known| known.stamp == stamp) {
                    Some(known) => Ok(known.path(place)),
                    None => Ok(look(place, machine, boot)?.path(place)),
                }
            }
        }
    }

    fn look_later(&self, place: &Path, machine: &Path, boot: &str) {
        if self.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (place, machine, boot) = (place.to_owned(), machine.to_owned(), boot.to_owned());
        let looking = Arc::clone(&self.looking);
        let work = move || {
            // The next request tries again; until then there is the layer of before.
            drop(look(&place, &machine, &boot));
            looking.store(false, Ordering::Release);
        };
        if std::thread::Builder::new().name("warren-usr".to_owned()).spawn(work).is_err() {
            self.looking.store(false, Ordering::Release);
        }
    }
}

impl Finding {
    /// None that is of another boot: a power cut may have torn it, and its layer.
    fn load(place: &Path, boot: &str) -> Option<Self> {
        let text = fs::read(place.join(FINDING)).ok()?;
        let known: Self = serde_json::from_slice(&text).ok()?;
        let is_right = known.format == FORMAT && known.boot == boot;
        known.layer.parse::<Digest>().ok()?;
        (is_right && is_of_boot(&known.directory(place), boot)).then_some(known)
    }

    fn directory(&self, place: &Path) -> PathBuf {
        place.join(directory_name(&self.layer))
    }

    fn path(&self, place: &Path) -> PathBuf {
        self.directory(place).join(Shown::HIDDEN)
    }

    fn is_old(&self, stamp: &str) -> bool {
        let age = Duration::from_secs(now_unix().abs_diff(self.looked_unix));
        age > LOOK_AGAIN || self.stamp != stamp && age > LOOK_PAUSE
    }
}

fn directory_name(digest: &str) -> String {
    let hex = digest.rsplit(':').next().unwrap_or(digest);
    format!("{PREFIX}{hex}")
}

/// Looks through `/usr`, makes the layer if it is not there, and writes down that it is the right
/// one.
fn look(place: &Path, machine: &Path, boot: &str) -> Result<Finding, HostError> {
    let looked_unix = now_unix();
    let stamp = stamp(machine);
    let private = Private::below(&machine.join("usr"))?;
    let layer = private.digest().to_string();
    let finding = Finding { format: FORMAT, boot: boot.to_owned(), stamp, layer, looked_unix };
    let directory = finding.directory(place);
    let staging = Staging::create(place).map_err(HostError::Stage)?;
    let failed = |source: io::Error| HostError::Survey { path: directory.clone(), source };
    let noted = staging.path().join(FINDING);
    let text = serde_json::to_vec(&finding).map_err(|error| failed(error.into()))?;
    fs::write(&noted, text).map_err(failed)?;
    let root = staging.path().join(Shown::HIDDEN);
    if !is_of_boot(&directory, boot) {
        fs::create_dir(&root).map_err(failed)?;
        private.write(&root)?;
        fs::write(staging.path().join(BOOT), boot).map_err(failed)?;
    }
    let _names = NamesLock::acquire(place).map_err(HostError::Stage)?;
    // First the layer, then the word that it is right: a crash in between leaves one too many.
    let noted = if is_of_boot(&directory, boot) {
        noted
    } else {
        publish(staging, &directory, boot)?;
        directory.join(FINDING)
    };
    fs::rename(&noted, place.join(FINDING)).map_err(failed)?;
    remove_unused(place, boot);
    Ok(finding)
}

/// Removes the layers of earlier boots. No sandbox of those runs any more, and one that starts
/// again stands on the layer that is right then. What cannot be removed now is tried again after
/// the next look.
fn remove_unused(place: &Path, boot: &str) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let is_layer = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if is_layer && entry.path().is_dir() && !is_of_boot(&entry.path(), boot) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// A stamp that changes when the machine's packages do.
fn stamp(machine: &Path) -> String {
    let mut hash = Sha256::new();
    for name in WATCHED {
        if let Ok(stat) = rustix::fs::statat(CWD, machine.join(name), AtFlags::SYMLINK_NOFOLLOW) {
            // Another machine's, or a container's, may be the same in all the rest.
            hash.update(stat.st_dev.to_le_bytes());
            survey::add_stat(&mut hash, name, &stat);
        }
    }
    Digest::finish(hash).to_string()
}

fn now_unix() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

#[cfg(test)]
#[path = "hidden_tests.rs"]
mod tests;
