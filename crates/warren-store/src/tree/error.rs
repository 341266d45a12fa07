use std::io;

use rustix::io::Errno;

/// An entry cannot become part of a tree.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    #[error("its name is longer than 4096 bytes")]
    NameTooLong,
    #[error("a component of its name is longer than 255 bytes")]
    ComponentTooLong,
    #[error("its name or target holds a NUL byte")]
    Nul,
    #[error("its name holds `..`")]
    ParentComponent,
    #[error("it lies deeper than {limit} directories")]
    TooDeep { limit: usize },
    #[error("it would replace the root directory")]
    ReplacesRoot,
    #[error("its owner or group {id} is outside 0 to 65535: change it in the source and try again")]
    Id { id: u64 },
    #[error("an extended attribute has a name over 255 bytes or a value over 64 KiB")]
    Xattr,
    #[error("the extended attributes of directories take more than {limit} bytes in all")]
    XattrTotal { limit: usize },
    #[error("`{}` is not a directory", parent.display())]
    ParentNotDirectory { parent: std::path::PathBuf },
    #[error("`{}` is a link that leads nowhere in the tree", parent.display())]
    DanglingParent { parent: std::path::PathBuf },
    #[error("its hard link target `{target}` is not a regular file in the tree")]
    HardLinkTarget { target: String },
    #[error("its link target is empty or longer than 4095 bytes")]
    SymlinkTarget,
    #[error("it is a whiteout that names no entry")]
    Whiteout,
    #[error("it is not in a tree of the layer: its name must begin with `upper-` and a number below 64")]
    OutsideTrees,
    #[error("entries of type `{}` are not supported", char::from(*kind).escape_default())]
    Kind { kind: u8 },
    #[error("cannot {action} it")]
    Io { action: &'static str, source: io::Error },
}

impl EntryError {
    pub(crate) fn io(action: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::Io { action, source: errno.into() }
    }
}
