use std::io;

use rustix::io::Errno;

/// An entry cannot become part of a tree.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// The name is longer than any path.
    #[error("its name is longer than 4096 bytes")]
    NameTooLong,
    /// One component is longer than any file name.
    #[error("a component of its name is longer than 255 bytes")]
    ComponentTooLong,
    /// The name or link target holds a NUL byte.
    #[error("its name or target holds a NUL byte")]
    Nul,
    /// The name has `..`.
    #[error("its name holds `..`")]
    ParentComponent,
    /// It would lie too deep.
    #[error("it lies deeper than {limit} directories")]
    TooDeep {
        /// How deep is allowed.
        limit: usize,
    },
    /// The root can only be a directory.
    #[error("it would replace the root directory")]
    ReplacesRoot,
    /// The owner does not exist inside a sandbox.
    #[error("its owner or group {id} is outside 0 to 65535: change it in the source and try again")]
    Id {
        /// The id found.
        id: u64,
    },
    /// An extended attribute is too large.
    #[error("an extended attribute has a name over 255 bytes or a value over 64 KiB")]
    Xattr,
    /// The extended attributes of directories, which are held in memory, are too large in all.
    #[error("the extended attributes of directories take more than {limit} bytes in all")]
    XattrTotal {
        /// The bound.
        limit: usize,
    },
    /// The entry that should be the directory around it is none.
    #[error("`{}` is not a directory", parent.display())]
    ParentNotDirectory {
        /// The path.
        parent: std::path::PathBuf,
    },
    /// The directory around it is a link that leads nowhere.
    #[error("`{}` is a link that leads nowhere in the tree", parent.display())]
    DanglingParent {
        /// The path.
        parent: std::path::PathBuf,
    },
    /// The target of a hard link is absent or no regular file.
    #[error("its hard link target `{target}` is not a regular file in the tree")]
    HardLinkTarget {
        /// The target.
        target: String,
    },
    /// The target of a symbolic link is empty or too long.
    #[error("its link target is empty or longer than 4095 bytes")]
    SymlinkTarget,
    /// A whiteout that removes no plain name.
    #[error("it is a whiteout that names no entry")]
    Whiteout,
    /// An entry of a layer that is in none of its trees.
    #[error("it is not in a tree of the layer: its name must begin with `upper-` and a number below 64")]
    OutsideTrees,
    /// A kind of entry that no root filesystem needs.
    #[error("entries of type `{}` are not supported", char::from(*kind).escape_default())]
    Kind {
        /// The type byte of its header.
        kind: u8,
    },
    /// The system refused.
    #[error("cannot {action} it")]
    Io {
        /// The step that failed.
        action: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl EntryError {
    pub(crate) fn io(action: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::Io { action, source: errno.into() }
    }
}
