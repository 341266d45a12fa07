use std::io::{self, Read};
use std::str::FromStr;

use crate::owner::Owner;
use crate::text::{checked_text, is_lower_hex};

/// Files that clients send for the steps of their builds, as archives. Nothing on the host looks
/// into them: they are unpacked in the sandbox of a build. Each owner has a bounded room, in which
/// the oldest make way for new ones. Methods block.
pub trait BuildFiles: Send + Sync {
    fn has(&self, owner: &Owner, hash: &FilesHash) -> bool;

    /// Keeps what is read, once all of it has arrived; nothing of it otherwise.
    fn keep(&self, owner: &Owner, hash: &FilesHash, source: &mut dyn Read) -> io::Result<()>;

    /// An archive from its beginning; [`io::ErrorKind::NotFound`] if it is not there.
    fn open(&self, owner: &Owner, hash: &FilesHash) -> io::Result<Box<dyn Read + Send>>;
}

/// The name that a client gave to files: 64 hexadecimal digits in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilesHash(String);

/// The text is not the name of files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("files are named by 64 hexadecimal digits, in lower case")]
pub struct FilesHashError;

impl FromStr for FilesHash {
    type Err = FilesHashError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_lower_hex(text, 64) { Ok(Self(text.to_owned())) } else { Err(FilesHashError) }
    }
}

checked_text!(FilesHash);
