use serde::{Deserialize, Serialize};

/// A file in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FileInfo {
    /// Absolute. Bytes that are no text are shown as U+FFFD.
    pub path: String,
    /// The path in base64, where it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    #[serde(rename = "type")]
    pub kind: FileType,
    pub size_bytes: u64,
    /// Permission bits in octal, such as `0644`.
    #[cfg_attr(feature = "schema", schema(pattern = "^[0-7]{4}$", example = "0644"))]
    pub mode: String,
    pub uid: u32,
    pub gid: u32,
    /// The owner's name, where the sandbox knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The group's name, where the sandbox knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub modified_at: String,
    /// The target of a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    pub inode: u64,
    pub links: u64,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum FileType {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

/// Files of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FileList {
    pub items: Vec<FileInfo>,
    /// There is more than was asked for.
    pub truncated: bool,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Written {
    pub bytes: u64,
}

/// The result of unpacking an archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Unpacked {
    /// Files and symbolic links that were made.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Entries of the archive that are neither files, directories nor symbolic links.
    pub left_out: u64,
}

/// Asks for some files of a directory, as a tar file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PackFiles {
    /// The directory. A relative path starts at the user's home.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4095))]
    pub path: String,
    /// Paths below it. Those that do not exist are left out.
    #[cfg_attr(feature = "schema", schema(max_items = 10_000))]
    pub files: Vec<String>,
    /// The user whose rights count. Left out: the sandbox's own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 255))]
    pub user: Option<String>,
}

/// Lines that match a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GrepResult {
    pub items: Vec<GrepLine>,
    /// There is more than was asked for.
    pub truncated: bool,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GrepLine {
    pub path: String,
    /// Counted from 1.
    pub line: u64,
    /// Without its end, cut at a few kilobytes.
    pub text: String,
}

/// A change below a watched directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FileChange {
    pub change: FileChangeKind,
    /// Relative to the watched directory.
    pub path: String,
    /// Where it went, for a rename within the watched directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_to: Option<String>,
}

/// The kind of a change. After `overflowed` some changes are missing: look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum FileChangeKind {
    Created,
    Written,
    Removed,
    Renamed,
    AttributesChanged,
    Overflowed,
}

/// Makes a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MakeDirectory {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4095))]
    pub path: String,
    /// Permission bits in octal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[0-7]{3,4}$"))]
    pub mode: Option<String>,
    /// Make missing parents too; one that exists is no error.
    #[serde(default)]
    pub parents: bool,
    /// The user whose rights count. Left out: the sandbox's own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 255))]
    pub user: Option<String>,
}

/// Moves or renames a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MoveFile {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4095))]
    pub from: String,
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4095))]
    pub to: String,
    /// The user whose rights count. Left out: the sandbox's own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 255))]
    pub user: Option<String>,
}

/// Changes a file's permission bits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChangeMode {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4095))]
    pub path: String,
    /// In octal.
    #[cfg_attr(feature = "schema", schema(pattern = "^[0-7]{3,4}$", example = "0755"))]
    pub mode: String,
    /// The user whose rights count. Left out: the sandbox's own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 255))]
    pub user: Option<String>,
}

/// Gives a file to another owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChangeOwner {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4095))]
    pub path: String,
    /// By name or as `uid[:gid]`.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 255))]
    pub owner: String,
    /// The user whose rights count. Left out: the sandbox's own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 255))]
    pub user: Option<String>,
}

/// Makes a symbolic link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MakeSymlink {
    /// Where the link will be.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4095))]
    pub path: String,
    /// The path that it leads to.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4095))]
    pub target: String,
    /// The user whose rights count. Left out: the sandbox's own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 255))]
    pub user: Option<String>,
}
