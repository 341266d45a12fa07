//! Which process serves which links.
//!
//! A *domain* is a process that serves links of one data directory: the server's, which is the same
//! after every restart, or one of a command, which ends with it. While it lives it holds a lock on
//! `<data>/networks/<domain>`. Its table and its links say whose they are, so whoever opens the
//! directory later finds what a dead one has left. A command that ends in order may leave its
//! domain to the next one, see [`Lease`].

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use warren_core::SandboxId;

use crate::lease::Lease;

const SERVE: &str = "serve";
const RUN: &str = "run-";
/// How often a new name is tried, should others remove files at the same moment.
const TRIES: usize = 8;
/// How long a server waits for one that may just have been killed.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);
/// Domains of one data directory that wait for the next command, at most.
const MOST_KEPT: usize = 4;

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
    /// The rules that a command before this one has left to it.
    pub(crate) lease: Option<Lease>,
    /// Nobody has died here without clearing away what was theirs.
    pub(crate) is_tidy: bool,
    directory: PathBuf,
    /// Locked for as long as this is there.
    lock: File,
    /// The name stays.
    is_left: bool,
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
    /// True for one that ends with its command.
    pub(crate) fn is_command(&self) -> bool {
        self.name.starts_with(RUN)
    }

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
                Ok(Self { domain, lease: None, is_tidy: false, directory, lock, is_left: false })
            }
            DomainKind::Run => Self::take_kept_or_new(directory, instance),
        }
    }

    fn take_kept_or_new(directory: PathBuf, instance: String) -> Result<Self, ClaimError> {
        let (mut kept, mut is_tidy) = (None, true);
        for name in commands(&directory) {
            // Somebody has it.
            let Some(lock) = lock(&directory.join(&name))? else { continue };
            match Lease::read(&lock) {
                Some(_) if kept.is_some() => {}
                Some(lease) => {
                    // From here on it is a dead domain's, should this process be killed.
                    lock.set_len(0).map_err(at(&directory.join(&name)))?;
                    kept = Some((name, lock, lease));
                }
                None => is_tidy = false,
            }
        }
        let Some((name, lock, lease)) = kept else { return Self::take_new(directory, instance, is_tidy) };
        let domain = Domain { instance, name };
        Ok(Self { domain, lease: Some(lease), is_tidy, directory, lock, is_left: false })
    }

    fn take_new(directory: PathBuf, instance: String, is_tidy: bool) -> Result<Self, ClaimError> {
        for _ in 0..TRIES {
            let name = format!("{RUN}{}", draw()?);
            if let Some(lock) = lock(&directory.join(&name))? {
                let domain = Domain { instance, name };
                return Ok(Self { domain, lease: None, is_tidy, directory, lock, is_left: false });
            }
        }
        Err(ClaimError::InUse)
    }

    /// Leaves the domain to the next command. False if enough are there already.
    pub(crate) fn leave(&mut self, lease: &Lease) -> io::Result<bool> {
        let is_kept = |name: &String| {
            let found = fs::metadata(self.directory.join(name));
            *name != self.domain.name && found.is_ok_and(|found| found.len() > 0)
        };
        if commands(&self.directory).filter(is_kept).count() >= MOST_KEPT {
            return Ok(false);
        }
        lease.write(&self.lock)?;
        self.is_left = true;
        Ok(true)
    }

    /// The name stays from now on: it says that there may be something to clear away.
    pub(crate) fn begin(&mut self) {
        self.is_left = true;
    }

    /// There is nothing to clear away any more.
    pub(crate) fn tidy(&mut self) {
        self.is_left = false;
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
        // One that waits for the next command is not dead.
        if Lease::read(&lock).is_some() {
            return None;
        }
        Some(DeadDomain { path, _lock: lock })
    }

    /// Takes over a domain of the same directory that waits for the next command.
    pub(crate) fn take_kept(&self, name: String) -> Option<(Domain, Lease, DeadDomain)> {
        let path = self.directory.join(&name);
        let lock = lock(&path).ok().flatten()?;
        let lease = Lease::read(&lock)?;
        lock.set_len(0).ok()?;
        let domain = Domain { instance: self.domain.instance.clone(), name };
        Some((domain, lease, DeadDomain { path, _lock: lock }))
    }

    /// Domains whose files are here, those that have left nothing else included.
    pub(crate) fn others(&self) -> Vec<Domain> {
        let ephemeral = commands(&self.directory).filter(|name| *name != self.domain.name);
        ephemeral.map(|name| Domain { instance: self.domain.instance.clone(), name }).collect()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.domain.name.starts_with(RUN) && !self.is_left {
            drop(fs::remove_file(self.directory.join(&self.domain.name)));
        }
        // A program that another thread is just starting has a copy of the descriptor until it
        // executes; nobody is to wait for that.
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
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

/// The names of commands' domains.
fn commands(directory: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(RUN))
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
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path).map_err(at(path))?;
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
    fn what_a_command_leaves_is_the_next_ones_once() {
        let data = tempfile::tempdir().unwrap();
        let lease = Lease {
            block: 3,
            next: 9,
            imprint: crate::nft::Imprint { given: 1, kept: 2, generation: 3 },
            ports: crate::lease::Ports { v4: (4, 5), v6: None },
        };
        let mut first = Claim::take(data.path(), DomainKind::Run).unwrap();
        assert!(first.lease.is_none() && first.is_tidy);
        assert!(first.leave(&lease).unwrap());
        let domain = first.domain.clone();
        drop(first);
        let serve = Claim::take(data.path(), DomainKind::Serve).unwrap();
        assert!(serve.take_over(&domain).is_none(), "it waits, and is not dead");
        let second = Claim::take(data.path(), DomainKind::Run).unwrap();
        assert_eq!((&second.domain, second.lease.as_ref()), (&domain, Some(&lease)));
        let third = Claim::take(data.path(), DomainKind::Run).unwrap();
        assert!(third.lease.is_none() && third.domain != domain);
        // As a killed process leaves it.
        let path = data.path().join("networks").join(&domain.name);
        drop(second);
        fs::write(&path, "").unwrap();
        let fourth = Claim::take(data.path(), DomainKind::Run).unwrap();
        assert!(fourth.lease.is_none() && !fourth.is_tidy);
        assert!(fourth.take_over(&domain).is_some());
    }

    #[test]
    fn few_domains_wait() {
        let data = tempfile::tempdir().unwrap();
        let lease = Lease {
            block: 3,
            next: 9,
            imprint: crate::nft::Imprint { given: 1, kept: 2, generation: 3 },
            ports: crate::lease::Ports { v4: (4, 5), v6: None },
        };
        let claims: Vec<Claim> =
            (0..MOST_KEPT + 2).map(|_| Claim::take(data.path(), DomainKind::Run).unwrap()).collect();
        let left = claims.into_iter().map(|mut claim| claim.leave(&lease).unwrap());
        assert_eq!(left.filter(|left| *left).count(), MOST_KEPT);
        let serve = Claim::take(data.path(), DomainKind::Serve).unwrap();
        let kept: Vec<_> = serve.others().into_iter().filter_map(|one| serve.take_kept(one.name)).collect();
        assert_eq!(kept.len(), MOST_KEPT);
        assert!(kept.iter().all(|(_, found, _)| *found == lease));
        kept.into_iter().for_each(|(_, _, dead)| dead.settle());
        assert_eq!(serve.others(), []);
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
