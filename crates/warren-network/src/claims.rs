//! Which process serves which links.
//!
//! A *domain* is a process that serves links of one data directory: the server's, which is the same
//! after every restart, or one of a command, which ends with it. While it lives it holds a lock on
//! `<data>/networks/<domain>`. Its table and its links say whose they are, so whoever opens the
//! directory later finds what a dead one has left.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use warren_core::SandboxId;

const SERVE: &str = "serve";
const RUN: &str = "run-";
/// How often a new name is tried, should others remove files at the same moment.
const TRIES: usize = 8;
/// How long a server waits for one that may just have been killed.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// Which process of a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainKind {
    /// The server. There is one.
    Serve,
    /// A command with a sandbox of its own. There may be many, beside the server.
    Run,
}

/// A domain's name, wherever it is written down.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Domain {
    /// The data directory's own number.
    pub(crate) instance: String,
    pub(crate) name: String,
}

/// A link's description: whose it is, and which sandbox's, if it has been given to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkOwner {
    pub(crate) domain: Domain,
    pub(crate) sandbox: Option<SandboxId>,
}

/// A domain that this process is. Dropping it frees the name.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) domain: Domain,
    directory: PathBuf,
    /// Locked for as long as this is there.
    _lock: File,
}

/// A domain could not be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("another server uses the networks of this data directory")]
    InUse,
    #[error("use `{}`", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("draw a name")]
    Draw(#[source] io::Error),
}

impl Domain {
    pub(crate) fn link_owner(&self, sandbox: Option<&SandboxId>) -> LinkOwner {
        LinkOwner { domain: self.clone(), sandbox: sandbox.cloned() }
    }

    /// Reads what `Display` has written.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (instance, name) = text.strip_prefix("warren:")?.split_once(':')?;
        let known = name == SERVE || name.starts_with(RUN);
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (known && plain(name) && plain(instance) && !instance.is_empty())
            .then(|| Self { instance: instance.to_owned(), name: name.to_owned() })
    }
}

impl LinkOwner {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (domain, sandbox) = text.rsplit_once(':')?;
        let sandbox = if sandbox.is_empty() { None } else { Some(sandbox.parse().ok()?) };
        Some(Self { domain: Domain::parse(domain)?, sandbox })
    }
}

impl Claim {
    pub(crate) fn take(data_dir: &Path, kind: DomainKind) -> Result<Self, ClaimError> {
        let directory = data_dir.join("networks");
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&directory).map_err(at(&directory))?;
        let instance = instance(&directory)?;
        match kind {
            DomainKind::Serve => {
                let lock = lock_patiently(&directory.join(SERVE))?.ok_or(ClaimError::InUse)?;
                let domain = Domain { instance, name: SERVE.to_owned() };
                Ok(Self { domain, directory, _lock: lock })
            }
            DomainKind::Run => Self::take_new(directory, &instance),
        }
    }

    fn take_new(directory: PathBuf, instance: &str) -> Result<Self, ClaimError> {
        for _ in 0..TRIES {
            let name = format!("{RUN}{}", draw()?);
            if let Some(lock) = lock(&directory.join(&name))? {
                let domain = Domain { instance: instance.to_owned(), name };
                return Ok(Self { domain, directory, _lock: lock });
            }
        }
        Err(ClaimError::InUse)
    }

    /// Takes over a dead domain of the same directory that no process comes back to. This process
    /// clears it away while it holds the answer.
    pub(crate) fn take_over(&self, domain: &Domain) -> Option<DeadDomain> {
        let ephemeral = domain.name.starts_with(RUN) && domain.instance == self.domain.instance;
        if !ephemeral || *domain == self.domain {
            return None;
        }
        let path = self.directory.join(&domain.name);
        let lock = lock(&path).ok().flatten()?;
        Some(DeadDomain { path, _lock: lock })
    }

    /// Domains whose files are here, those that have left nothing else included.
    pub(crate) fn others(&self) -> Vec<Domain> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let ephemeral = names.filter(|name| name.starts_with(RUN) && *name != self.domain.name);
        ephemeral.map(|name| Domain { instance: self.domain.instance.clone(), name }).collect()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.domain.name.starts_with(RUN) {
            drop(fs::remove_file(self.directory.join(&self.domain.name)));
        }
    }
}

/// The lock of a dead domain. Dropped when everything of the dead one is gone, which removes its
/// name too.
#[derive(Debug)]
pub(crate) struct DeadDomain {
    path: PathBuf,
    _lock: File,
}

impl DeadDomain {
    /// Nothing of it is left.
    pub(crate) fn settle(self) {
        drop(fs::remove_file(&self.path));
    }
}

/// `None` if somebody has it. A server that was killed is survived by its clones until they
/// execute, and they have copies of its descriptors.
fn lock_patiently(path: &Path) -> Result<Option<File>, ClaimError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match lock(path)? {
            None if Instant::now() < deadline => std::thread::sleep(PAUSE),
            answer => return Ok(answer),
        }
    }
}

fn lock(path: &Path) -> Result<Option<File>, ClaimError> {
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path).map_err(at(path))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(at(path)(errno.into())),
    }
    // The holder before may have removed it meanwhile: then this is a lock on nothing.
    let (locked, there) = (file.metadata().map_err(at(path))?, fs::metadata(path).ok());
    Ok(there.is_some_and(|there| there.ino() == locked.ino()).then_some(file))
}

/// The directory's number, drawn once.
fn instance(directory: &Path) -> Result<String, ClaimError> {
    let path = directory.join("instance");
    if !path.exists() {
        let new = directory.join(format!("instance.{}", draw()?));
        fs::write(&new, draw()?).map_err(at(&new))?;
        let linked = fs::hard_link(&new, &path);
        drop(fs::remove_file(&new));
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(at(&path)(error)),
            _ => {}
        }
    }
    let mut text = String::new();
    File::open(&path).and_then(|file| file.take(64).read_to_string(&mut text)).map_err(at(&path))?;
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain { Ok(text) } else { Err(at(&path)(io::ErrorKind::InvalidData.into())) }
}

fn draw() -> Result<String, ClaimError> {
    let number = getrandom::u64().map_err(|error| ClaimError::Draw(io::Error::other(error)))?;
    Ok(format!("{number:016x}"))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> ClaimError {
    let path = path.to_owned();
    move |source| ClaimError::File { path, source }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warren:{}:{}", self.instance, self.name)
    }
}

impl fmt::Display for LinkOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.domain, self.sandbox.as_ref().map_or("", SandboxId::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_server_and_it_is_the_same_again() {
        let data = tempfile::tempdir().unwrap();
        let first = Claim::take(data.path(), DomainKind::Serve).unwrap();
        assert!(matches!(Claim::take(data.path(), DomainKind::Serve), Err(ClaimError::InUse)));
        let domain = first.domain.clone();
        drop(first);
        assert_eq!(Claim::take(data.path(), DomainKind::Serve).unwrap().domain, domain);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(Claim::take(other.path(), DomainKind::Serve).unwrap().domain, domain);
    }

    #[test]
    fn only_the_dead_are_inherited() {
        let data = tempfile::tempdir().unwrap();
        let one = Claim::take(data.path(), DomainKind::Run).unwrap();
        let two = Claim::take(data.path(), DomainKind::Run).unwrap();
        let serve = Claim::take(data.path(), DomainKind::Serve).unwrap();
        assert_ne!(one.domain, two.domain);
        assert!(one.take_over(&two.domain).is_none(), "it lives");
        assert!(one.take_over(&one.domain).is_none(), "that is me");
        assert!(one.take_over(&serve.domain).is_none());
        let (dead, path) = (two.domain.clone(), data.path().join("networks").join(&two.domain.name));
        drop(two);
        assert!(!path.exists());
        // As a killed process leaves it.
        fs::write(&path, "").unwrap();
        assert_eq!(one.others(), std::slice::from_ref(&dead));
        let taken = one.take_over(&dead).unwrap();
        assert!(serve.take_over(&dead).is_none(), "one takes it over");
        taken.settle();
        assert!(!path.exists() && one.others().is_empty());
        drop(serve);
        assert!(one.take_over(&Domain { name: SERVE.to_owned(), ..dead }).is_none(), "a server comes back");
    }

    #[test]
    fn owners_of_links_are_read_again() {
        let domain = Domain { instance: "00ff".to_owned(), name: "run-12".to_owned() };
        let id = SandboxId::from_random([7; 16]);
        for owner in [domain.link_owner(None), domain.link_owner(Some(&id))] {
            assert_eq!(LinkOwner::parse(&owner.to_string()), Some(owner));
        }
        assert_eq!(Domain::parse(&domain.to_string()), Some(domain));
        for text in ["", "warren", "warren::serve", "warren:1:other", "warren:1:run-../x", "eth:1:serve"] {
            assert_eq!(Domain::parse(text), None, "{text}");
        }
        assert_eq!(LinkOwner::parse("warren:1:serve:not an id"), None);
    }
}
