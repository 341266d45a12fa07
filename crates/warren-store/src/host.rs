//! The built-in template: a generated skeleton and the machine's own `/usr`.
//!
//! Of the machine's other files only an allow-list of public configuration is copied, so nothing
//! private can slip in with a new package. The skeleton is kept under a fingerprint of what it was
//! made from; a change of the machine leads to another fingerprint, and sandboxes that still run
//! keep the skeleton they were started with.
//!
//! A skeleton is never flushed to the disk, which could take seconds on a busy machine. Instead it
//! says in which boot it was made, and one of an earlier boot, which a power cut may have torn, is
//! made anew.

mod copy;
mod given;
mod hidden;
mod packages;
mod place;
mod private;
mod skeleton;
mod survey;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::manifest::{Manifest, ReadError, SourceKind, TemplateConfig, WriteError};
use crate::name::TemplateName;
use crate::staging::{NamesLock, Staging, StagingError, private_directory};
use crate::template::{Template, Tree};
use crate::tree::EntryError;

pub(crate) use given::Given;
pub(crate) use hidden::Hider;
pub(crate) use place::of as place;
pub(crate) use private::{is_public, open_machine};
use survey::Survey;
pub(crate) use survey::boot;

/// In a directory that was not flushed to the disk: in which boot it was made.
const BOOT: &str = "boot";

/// The built-in template could not be made.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("look at `{}`", path.display())]
    Survey { path: PathBuf, source: io::Error },
    #[error(
        "`/{directory}` is not a link into `/usr`: the `host` template needs a merged /usr; \
         merge it (Debian: package usrmerge) or import a template"
    )]
    NotMerged { directory: &'static str },
    #[error("more than {most} names in `{}` are not readable by everybody: is its mode right?", path.display())]
    TooPrivate { path: PathBuf, most: usize },
    #[error("write `{path}` of the skeleton")]
    Write { path: String, source: EntryError },
    #[error("stage the skeleton")]
    Stage(#[source] StagingError),
    #[error("describe the skeleton")]
    Describe(#[source] WriteError),
    #[error("read the skeleton's description")]
    Read(#[source] Box<ReadError>),
}

/// The parts of the machine itself that templates show to sandboxes, as far as everybody on the
/// machine may read them.
pub const SHOWN: [&str; 1] = ["/usr"];

/// Makes the skeleton for the machine as it is now, unless it is there, and what hides the private
/// files of its `/usr`.
pub(crate) fn prepare(
    skeletons: &Path,
    machine: &Path,
    given: &Given,
    hider: &Hider,
    boot: &str,
) -> Result<Template, HostError> {
    if !skeletons.is_dir() {
        // Whoever wants to be rid of it may remove it at any time.
        private_directory(skeletons)
            .map_err(|source| HostError::Survey { path: skeletons.to_owned(), source })?;
    }
    let survey = Survey::of(machine, given)?;
    let directory = skeletons.join(survey.fingerprint.hex());
    let look = || hider.layer(skeletons, machine, boot);
    let hidden = if is_of_boot(&directory, boot) {
        look()?
    } else {
        // Most of either is waiting for the file system.
        std::thread::scope(|scope| {
            let hidden = scope.spawn(look);
            let staging = build(skeletons, machine, &survey, given, boot)?;
            let names = NamesLock::acquire(skeletons).map_err(HostError::Stage)?;
            publish(staging, &directory, boot)?;
            drop(names);
            hidden.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?
    };
    let manifest = Manifest::read(&directory, &TemplateName::host())
        .map_err(|error| HostError::Read(Box::new(error)))?;
    let trees = vec![
        Tree { at: PathBuf::from("/"), lowers: vec![directory.join("root")] },
        Tree { at: PathBuf::from("/usr"), lowers: vec![hidden, machine.join("usr")] },
    ];
    Ok(Template { name: TemplateName::host(), manifest, trees })
}

/// How many names of what [`SHOWN`] has no sandbox sees, because not everybody on the machine may
/// read them. Looks through all of it and writes nothing.
pub fn hidden_names() -> Result<usize, HostError> {
    SHOWN.iter().map(|shown| Ok(private::Private::below(Path::new(shown))?.count())).sum()
}

fn build(
    skeletons: &Path,
    machine: &Path,
    survey: &Survey,
    given: &Given,
    boot: &str,
) -> Result<Staging, HostError> {
    let staging = Staging::create(skeletons).map_err(HostError::Stage)?;
    let root = staging.path().join("root");
    fs::create_dir(&root)
        .and_then(|()| fs::write(staging.path().join(BOOT), boot))
        .map_err(|source| HostError::Survey { path: root.clone(), source })?;
    let totals = skeleton::write(&root, machine, survey, given)?;
    let created = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let manifest = Manifest {
        format: Manifest::FORMAT,
        name: TemplateName::host(),
        digest: survey.fingerprint.clone(),
        created_unix: created.map_or(0, |age| age.as_secs()),
        source: SourceKind::Host,
        size_bytes: totals.size_bytes,
        entries: totals.entries,
        config: config(survey),
        base: None,
    };
    manifest.write(staging.path()).map_err(HostError::Describe)?;
    Ok(staging)
}

/// Puts a finished directory in place, unless another process made the same one meanwhile. The
/// caller holds the lock on names.
fn publish(staging: Staging, directory: &Path, boot: &str) -> Result<(), HostError> {
    let published = if is_of_boot(directory, boot) {
        Ok(())
    } else if directory.exists() {
        staging.exchange(directory)
    } else {
        staging.publish(directory)
    };
    published.map_err(HostError::Stage)
}

/// True if a directory is whole: it was made in this boot.
fn is_of_boot(directory: &Path, boot: &str) -> bool {
    fs::read_to_string(directory.join(BOOT)).is_ok_and(|made_in| made_in == boot)
}

/// `HOME`, `USER` and the like are not here: every program has those of its own user.
fn config(survey: &Survey) -> TemplateConfig {
    TemplateConfig {
        env: [
            "PATH=/home/user/.local/bin:/opt/warren/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG=C.UTF-8",
            "TERM=xterm-256color",
        ]
        .map(str::to_owned)
        .into(),
        user: "user".to_owned(),
        workdir: "/home/user".to_owned(),
        command: vec![survey.shell.to_owned()],
    }
}

#[cfg(test)]
#[path = "host/host_tests.rs"]
mod tests;
