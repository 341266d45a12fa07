//! Files that every sandbox gets, whatever its template: the name servers to ask, and the authority
//! to trust where secrets are put into requests.
//!
//! The skeleton of `host` has these files in it. An imported template gets a layer of them on top
//! of its root, so that it stays as it was imported; what is made of a sandbox's state stands above
//! that layer, and may change the files or remove them.
//!
//! ```text
//! <data>/ca/ca.pem                         the authority's certificate, if there is one
//! <data>/common/<fingerprint>/root/        the layer, owned by the ids seen inside
//! ```
//!
//! As a skeleton, the layer is never flushed to the disk, and one of an earlier boot is made anew.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{BOOT, HostError, is_of_boot, publish};
use crate::digest::Digest;
use crate::staging::{NamesLock, Staging};
use crate::tree::{Attributes, TreePath, TreeWriter};

/// The gateway of every sandbox's link: questions about names are answered there. A sandbox without
/// a network cannot reach it.
const RESOLV_CONF: &str = "nameserver 169.254.77.1\noptions timeout:5 attempts:2\n";

/// Where machines keep all the certificates that they trust in one file.
const BUNDLES: [&str; 4] = [
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/ssl/ca-bundle.pem",
    "etc/ssl/cert.pem",
];

const FORMAT: u32 = 1;
const MAX_DEPTH: usize = 4;

/// Where the files come from.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    layers: PathBuf,
    authority: PathBuf,
    machine: PathBuf,
}

impl Given {
    pub(crate) fn new(data: &Path, machine: &Path) -> Self {
        Self { layers: data.join("common"), authority: data.join("ca/ca.pem"), machine: machine.to_owned() }
    }

    pub(crate) fn layers(&self) -> &Path {
        &self.layers
    }

    /// Adds everything that the files depend on.
    pub(crate) fn add_to(&self, hash: &mut Sha256) {
        hash.update(FORMAT.to_le_bytes());
        let bundles = BUNDLES.iter().map(|bundle| self.machine.join(bundle));
        for path in bundles.chain([self.authority.clone()]) {
            if let Ok(metadata) = fs::metadata(&path) {
                hash.update(path.as_os_str().as_encoded_bytes());
                let of_file = [metadata.ino(), metadata.size()];
                let changed = [metadata.mtime(), metadata.mtime_nsec()];
                of_file.iter().for_each(|number| hash.update(number.to_le_bytes()));
                changed.iter().for_each(|number| hash.update(number.to_le_bytes()));
            }
        }
    }

    /// The files, by their paths inside. Without an authority there is nothing to trust.
    pub(crate) fn files(&self) -> Result<Vec<(&'static str, String)>, HostError> {
        let mut files = vec![("etc/resolv.conf", RESOLV_CONF.to_owned())];
        if let Some(own) = read(&self.authority)? {
            let paths = BUNDLES.iter().map(|bundle| self.machine.join(bundle));
            let mut bundle = String::new();
            for path in paths {
                if let Some(text) = read(&path)? {
                    bundle = text + "\n";
                    break;
                }
            }
            files.push(("etc/warren/ca-bundle.pem", bundle + &own));
            files.push(("etc/warren/ca.pem", own));
        }
        Ok(files)
    }

    /// A layer of the files, to lie on top of this root. Its directories look as those of the root
    /// do. `None` where the root has no place for them: its `/etc` is not a directory.
    pub(crate) fn layer(&self, root: &Path, boot: &str) -> Result<Option<PathBuf>, HostError> {
        let Some(looks) = Looks::of(root)? else { return Ok(None) };
        let mut hash = Sha256::new();
        self.add_to(&mut hash);
        for attributes in [&looks.root, &looks.etc] {
            [attributes.mode, attributes.uid, attributes.gid]
                .iter()
                .for_each(|number| hash.update(number.to_le_bytes()));
        }
        let directory = self.layers.join(Digest::finish(hash).hex());
        if !is_of_boot(&directory, boot) {
            self.build(&directory, boot, &looks)?;
        }
        Ok(Some(directory.join("root")))
    }

    fn build(&self, directory: &Path, boot: &str, looks: &Looks) -> Result<(), HostError> {
        let staging = Staging::create(&self.layers).map_err(HostError::Stage)?;
        let root = staging.path().join("root");
        fs::create_dir(&root)
            .and_then(|()| fs::write(staging.path().join(BOOT), boot))
            .map_err(|source| HostError::Survey { path: root.clone(), source })?;
        self.write(&root, looks)?;
        let _names = NamesLock::acquire(&self.layers).map_err(HostError::Stage)?;
        publish(staging, directory, boot)
    }

    fn write(&self, root: &Path, looks: &Looks) -> Result<(), HostError> {
        let failed = |path: &str| {
            let path = path.to_owned();
            move |source| HostError::Write { path, source }
        };
        let place = |path: &str| TreePath::parse(path.as_bytes(), MAX_DEPTH).map_err(failed(path));
        let mut writer = TreeWriter::new(root, MAX_DEPTH).map_err(failed("/"))?;
        writer.directory(&place("/")?, looks.root.clone()).map_err(failed("/"))?;
        writer.directory(&place("etc")?, looks.etc.clone()).map_err(failed("etc"))?;
        for (path, text) in self.files()? {
            if path.starts_with("etc/warren/") {
                writer.directory(&place("etc/warren")?, Attributes::root(0o755)).map_err(failed(path))?;
            }
            writer.text_file(&place(path)?, &text, &Attributes::root(0o644)).map_err(failed(path))?;
        }
        writer.finish().map(drop).map_err(failed("/"))
    }
}

/// How a template's own directories look, since those of a layer above them are the ones that are
/// seen.
struct Looks {
    root: Attributes,
    etc: Attributes,
}

impl Looks {
    fn of(root: &Path) -> Result<Option<Self>, HostError> {
        let look = |path: &Path| match fs::symlink_metadata(path) {
            Ok(metadata) => Ok(Some(metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(HostError::Survey { path: path.to_owned(), source }),
        };
        let attributes = |metadata: &fs::Metadata| Attributes {
            uid: metadata.uid(),
            gid: metadata.gid(),
            ..Attributes::root(metadata.mode() & 0o7777)
        };
        let Some(top) = look(root)?.filter(fs::Metadata::is_dir) else { return Ok(None) };
        let etc = match look(&root.join("etc"))? {
            Some(metadata) if metadata.is_dir() => attributes(&metadata),
            Some(_) => return Ok(None),
            None => Attributes::root(0o755),
        };
        Ok(Some(Self { root: attributes(&top), etc }))
    }
}

/// `None` if there is none. Text in another encoding can only be in comments.
fn read(path: &Path) -> Result<Option<String>, HostError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(HostError::Survey { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
#[path = "given_tests.rs"]
mod tests;
