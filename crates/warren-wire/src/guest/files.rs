use minicbor::{Decode, Encode};

use super::ByteString;

/// A call on the sandbox's files, made inside the sandbox's own root with the named user's rights.
/// A relative path starts at that user's home.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FileCall {
    /// As [`super::Start::user`]. Absent: the sandbox's default user.
    #[n(0)]
    pub user: Option<ByteString>,
    #[n(1)]
    pub operation: FileOperation,
    /// The call has root's rights, and what it makes (files, directories, parents on the way)
    /// belongs to `user`, who also says where relative paths start. Absent: the user's own rights.
    #[n(2)]
    pub as_root: Option<bool>,
}

/// An operation on files. Streams of entries, matches and bytes end with an End frame; calls
/// without a result of their own are answered by [`super::Reply::Done`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum FileOperation {
    /// Answered by [`super::Reply::Entry`].
    #[n(0)]
    Stat {
        #[n(0)]
        path: ByteString,
        /// Describe what a final symbolic link points to, not the link.
        #[n(1)]
        follow: bool,
        #[n(2)]
        detail: Option<Detail>,
    },
    /// Answered by [`super::Reply::Entry`], data frames and End. Regular files only, read to their
    /// end whatever their size is said to be.
    #[n(1)]
    Read {
        #[n(0)]
        path: ByteString,
        #[n(1)]
        offset: u64,
        #[n(2)]
        length: Option<u64>,
    },
    /// Answered by [`super::Reply::Done`] once the file is open; then the host sends data frames
    /// and End and gets [`super::Reply::Written`]. A connection that breaks before End leaves the
    /// previous content of a replaced file.
    #[n(2)]
    Write {
        #[n(0)]
        path: ByteString,
        #[n(1)]
        mode: WriteMode,
        /// Permission bits of a new file.
        #[n(2)]
        permissions: Option<u32>,
        /// Make missing parent directories.
        #[n(3)]
        parents: bool,
    },
    /// Answered by [`super::Reply::Entries`] any number of times, and End. Depth 1 is the
    /// directory's own entries. By name within a directory, each directory before what is in it; a
    /// path that is a link to a directory lists that one, with paths that begin as the request's
    /// does.
    #[n(3)]
    List {
        #[n(0)]
        path: ByteString,
        #[n(1)]
        depth: u32,
        #[n(2)]
        detail: Option<Detail>,
    },
    #[n(4)]
    MakeDirectory {
        #[n(0)]
        path: ByteString,
        #[n(1)]
        permissions: Option<u32>,
        /// As `mkdir -p`: make parents, and an existing directory is no error.
        #[n(2)]
        parents: bool,
    },
    #[n(5)]
    Rename {
        #[n(0)]
        from: ByteString,
        #[n(1)]
        to: ByteString,
    },
    #[n(6)]
    Remove {
        #[n(0)]
        path: ByteString,
        #[n(1)]
        recursive: bool,
    },
    #[n(7)]
    SetPermissions {
        #[n(0)]
        path: ByteString,
        #[n(1)]
        permissions: u32,
    },
    /// Owner and group as in [`super::Start::user`]; without a group the file keeps its own.
    /// Follows links.
    #[n(8)]
    SetOwner {
        #[n(0)]
        path: ByteString,
        #[n(1)]
        owner: ByteString,
    },
    #[n(9)]
    MakeSymlink {
        #[n(0)]
        path: ByteString,
        #[n(1)]
        target: ByteString,
    },
    /// Answered by [`super::Reply::Entries`] any number of times, and End.
    #[n(10)]
    Glob {
        #[n(0)]
        root: ByteString,
        /// `*`, `?`, `[…]`, `{a,b}` and `**`, matched against paths relative to `root`.
        #[n(1)]
        pattern: ByteString,
        #[n(2)]
        limit: u32,
    },
    /// Answered by [`super::Reply::Matches`] any number of times, and End.
    #[n(11)]
    Grep(#[n(0)] GrepQuery),
    /// Answered by [`super::Reply::Done`] once every directory is watched, then by
    /// [`super::Reply::Changed`] until the host closes the connection. An empty data frame from the
    /// host is answered by [`super::Reply::Done`] once everything that happened before it has been
    /// told.
    #[n(12)]
    Watch {
        #[n(0)]
        path: ByteString,
        #[n(1)]
        recursive: bool,
    },
    /// Replaces all extended attributes whose names begin with `prefix`, which every new name must.
    /// Follows links. A file system that has none is [`super::FailureCode::Unsupported`].
    #[n(13)]
    SetAttributes {
        #[n(0)]
        path: ByteString,
        #[n(1)]
        prefix: ByteString,
        #[n(2)]
        attributes: Vec<Attribute>,
    },
}

impl FileOperation {
    /// False for calls that only look.
    pub fn changes_files(&self) -> bool {
        !matches!(
            self,
            Self::Stat { .. }
                | Self::Read { .. }
                | Self::List { .. }
                | Self::Glob { .. }
                | Self::Grep(_)
                | Self::Watch { .. }
        )
    }
}

/// Details of an entry beyond its plain self.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Detail {
    /// Where a symbolic link leads in the end: [`FileEntry::resolved`].
    #[n(0)]
    pub resolve: bool,
    /// Extended attributes whose names begin with this: [`FileEntry::attributes`].
    #[n(1)]
    pub attributes: Option<ByteString>,
}

/// An extended attribute, its name as the kernel knows it: `user.` and the rest.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Attribute {
    #[n(0)]
    pub name: ByteString,
    #[n(1)]
    pub value: ByteString,
}

/// How a write treats what is already there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub enum WriteMode {
    /// Written beside and renamed over at End: readers see the old content or the new, never a mix.
    /// A file that cannot be renamed over (its directory is closed to the user, it is a mount) is
    /// overwritten in place at End instead, or while it arrives if it is larger than a few
    /// megabytes.
    #[default]
    #[n(0)]
    Replace,
    /// A missing file is made.
    #[n(1)]
    Append,
    /// Fails if the path exists.
    #[n(2)]
    CreateNew,
    /// Overwrites in place from this offset on; a missing file is made.
    #[n(3)]
    At {
        #[n(0)]
        offset: u64,
    },
    /// Opened in place and emptied, or made if missing, and written as the bytes arrive. With
    /// [`FileCall::as_root`] its owner becomes the call's user before the first byte.
    #[n(4)]
    Truncate,
}

/// A search for lines.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct GrepQuery {
    #[n(0)]
    pub root: ByteString,
    /// A regular expression (no look-around, no back-references).
    #[n(1)]
    pub pattern: String,
    #[n(2)]
    pub ignore_case: bool,
    /// Only files whose path relative to `root` matches this glob.
    #[n(3)]
    pub files: Option<ByteString>,
    #[n(4)]
    pub limit: u32,
}

/// One matching line.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct GrepMatch {
    #[n(0)]
    pub path: ByteString,
    /// Counted from 1.
    #[n(1)]
    pub line: u64,
    /// The line without its end, cut at a few kilobytes.
    #[n(2)]
    pub text: ByteString,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum EntryKind {
    #[n(0)]
    File,
    #[n(1)]
    Directory,
    #[n(2)]
    Symlink,
    #[n(3)]
    Fifo,
    #[n(4)]
    Socket,
    #[n(5)]
    CharDevice,
    #[n(6)]
    BlockDevice,
}

/// A file as `stat` and `list` tell it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FileEntry {
    /// Absolute.
    #[n(0)]
    pub path: ByteString,
    #[n(1)]
    pub kind: EntryKind,
    #[n(2)]
    pub size: u64,
    /// Permission bits, with set-id and sticky.
    #[n(3)]
    pub permissions: u32,
    #[n(4)]
    pub uid: u32,
    #[n(5)]
    pub gid: u32,
    /// Nanoseconds since the epoch.
    #[n(6)]
    pub modified_ns: i64,
    /// The target of a symbolic link.
    #[n(7)]
    pub target: Option<ByteString>,
    /// Names of owner and group, where the sandbox's files know them.
    #[n(8)]
    pub owner: Option<ByteString>,
    #[n(9)]
    pub group: Option<ByteString>,
    #[n(10)]
    pub inode: u64,
    #[n(11)]
    pub links: u64,
    /// For a symbolic link, where [`Detail::resolve`] asked for it.
    #[n(12)]
    pub resolved: Option<Resolved>,
    /// Where [`Detail::attributes`] asked for them; none where the file system has none.
    #[n(13)]
    pub attributes: Option<Vec<Attribute>>,
}

/// Where a symbolic link leads, through every further link on the way.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Resolved {
    /// Absolute and free of links; the link itself if it leads nowhere.
    #[n(0)]
    pub path: ByteString,
    /// Absent: it leads nowhere or in a circle.
    #[n(1)]
    pub kind: Option<EntryKind>,
    /// Of what is there; zero if nothing is.
    #[n(2)]
    pub permissions: u32,
    #[n(3)]
    pub size: u64,
}

/// The change of a watched path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum WatchKind {
    #[n(0)]
    Created,
    #[n(1)]
    Written,
    #[n(2)]
    Removed,
    #[n(3)]
    Renamed,
    #[n(4)]
    AttributesChanged,
    /// Events were lost (the kernel's queue or the watch limit overflowed): look again.
    #[n(5)]
    Overflowed,
}

/// One change seen by a watch.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WatchEvent {
    #[n(0)]
    pub kind: WatchKind,
    /// Relative to the watched directory.
    #[n(1)]
    pub path: ByteString,
    /// For a rename within the watched tree: the new path, relative as well.
    #[n(2)]
    pub renamed_to: Option<ByteString>,
    /// Set if an entry that is told as removed was moved out of the watched tree.
    #[n(3)]
    pub moved_away: Option<bool>,
}
