use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use crate::catalog::identity::sync_directory;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;

/// `secrets.key` of a data directory. It is read for every use, so that its loss is noticed at
/// once.
#[derive(Debug)]
pub(in crate::catalog) struct KeyFile {
    path: PathBuf,
}

pub(super) struct Key(XChaCha20Poly1305);

/// The reason why a value could not be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub(in crate::catalog) enum KeyError {
    #[error(
        "`{}` is gone, and secrets are sealed with it: put it back, or remove every secret and set it again",
        path.display()
    )]
    Lost { path: PathBuf },
    #[error("`{}` is not a key that Warren made, or others may read it: put the right one back", path.display())]
    NotAKey { path: PathBuf },
    #[error("it was sealed with another key, or was changed since")]
    Other,
    #[error("what was sealed is not text")]
    Damaged,
    #[error("read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("ask the kernel for randomness")]
    Random(#[source] getrandom::Error),
}

impl KeyFile {
    pub(in crate::catalog) fn of(data_dir: &Path) -> Self {
        Self { path: data_dir.join("secrets.key") }
    }

    pub(super) fn read(&self) -> Result<Key, KeyError> {
        let path = || self.path.clone();
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(KeyError::Lost { path: path() });
            }
            Err(source) => return Err(KeyError::Read { path: path(), source }),
        };
        let mode = fs::metadata(&self.path).map_err(|source| KeyError::Read { path: path(), source })?.mode();
        if bytes.len() != KEY_BYTES || mode & 0o077 != 0 {
            return Err(KeyError::NotAKey { path: path() });
        }
        let cipher = XChaCha20Poly1305::new_from_slice(&bytes);
        cipher.map(Key).map_err(|_| KeyError::NotAKey { path: path() })
    }

    /// Used while nothing is sealed yet.
    pub(super) fn read_or_make(&self) -> Result<Key, KeyError> {
        if !self.path.exists() {
            let mut bytes = [0; KEY_BYTES];
            getrandom::fill(&mut bytes).map_err(KeyError::Random)?;
            self.write(&bytes).map_err(|source| KeyError::Write { path: self.path.clone(), source })?;
        }
        self.read()
    }

    /// Writes the file whole, readable by its owner alone, and syncs it to the disk.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let draft = self.path.with_extension("key.new");
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, &self.path)?;
        sync_directory(&self.path)
    }
}

impl Key {
    /// Returns a fresh nonce and the sealed message. It opens only with the same `bound` words.
    pub(super) fn seal(&self, message: &[u8], bound: &[u8]) -> Result<Vec<u8>, KeyError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(KeyError::Random)?;
        let sealed = self.0.encrypt(&XNonce::from(nonce), Payload { msg: message, aad: bound });
        let mut all = nonce.to_vec();
        all.extend(sealed.map_err(|_| KeyError::Damaged)?);
        Ok(all)
    }

    pub(super) fn open(&self, sealed: &[u8], bound: &[u8]) -> Result<Vec<u8>, KeyError> {
        let (nonce, message) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(KeyError::Damaged)?;
        self.0
            .decrypt(&XNonce::from(*nonce), Payload { msg: message, aad: bound })
            .map_err(|_| KeyError::Other)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").finish_non_exhaustive()
    }
}
