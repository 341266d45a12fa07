//! The messages of the service `filesystem.Filesystem`: entries of a sandbox's files, and what
//! changes among them. Messages with the same fields are one type: their names do not travel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::json::{self, json_enum, json_oneof};
use crate::rpc::Empty;
use crate::timestamp::Timestamp;

/// A file or directory, as clients see it.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EntryInfo {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub name: String,
    /// Of a link, the type of its target.
    #[prost(enumeration = "FileType", tag = "2")]
    #[serde(rename = "type", with = "file_type_json", skip_serializing_if = "json::is_default")]
    pub r#type: i32,
    #[prost(string, tag = "3")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub path: String,
    #[prost(int64, tag = "4")]
    #[serde(with = "json::long", skip_serializing_if = "json::is_default")]
    pub size: i64,
    #[prost(uint32, tag = "5")]
    #[serde(with = "json::number", skip_serializing_if = "json::is_default")]
    pub mode: u32,
    #[prost(string, tag = "6")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub permissions: String,
    #[prost(string, tag = "7")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub owner: String,
    #[prost(string, tag = "8")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub group: String,
    #[prost(message, optional, tag = "9")]
    #[serde(alias = "modified_time", skip_serializing_if = "Option::is_none")]
    pub modified_time: Option<Timestamp>,
    #[prost(string, optional, tag = "10")]
    #[serde(alias = "symlink_target", skip_serializing_if = "Option::is_none")]
    pub symlink_target: Option<String>,
    #[prost(btree_map = "string, string", tag = "11")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub metadata: BTreeMap<String, String>,
}

/// The kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum FileType {
    Unspecified = 0,
    File = 1,
    Directory = 2,
    Symlink = 3,
}

json_enum!(FileType in file_type_json {
    Unspecified = "FILE_TYPE_UNSPECIFIED",
    File = "FILE_TYPE_FILE",
    Directory = "FILE_TYPE_DIRECTORY",
    Symlink = "FILE_TYPE_SYMLINK",
});

#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct StatRequest {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub path: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct StatResponse {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryInfo>,
}

pub type MakeDirRequest = StatRequest;
pub type MakeDirResponse = StatResponse;
pub type MoveResponse = StatResponse;
pub type RemoveRequest = StatRequest;
pub type RemoveResponse = Empty;

#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct MoveRequest {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub source: String,
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub destination: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ListDirRequest {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub path: String,
    /// 0 means 1.
    #[prost(uint32, tag = "2")]
    #[serde(with = "json::number", skip_serializing_if = "json::is_default")]
    pub depth: u32,
}

#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ListDirResponse {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub entries: Vec<EntryInfo>,
}

/// Watches a directory for as long as the stream lives.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WatchDirRequest {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub path: String,
    #[prost(bool, tag = "2")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub recursive: bool,
    #[prost(bool, tag = "3")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default",
        alias = "include_entry"
    )]
    pub include_entry: bool,
    #[prost(bool, tag = "4")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default",
        alias = "allow_network_mounts"
    )]
    pub allow_network_mounts: bool,
}

/// Watches a directory until it is told to stop: what happens is fetched.
pub type CreateWatcherRequest = WatchDirRequest;

/// One change.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct FilesystemEvent {
    /// Relative to what is watched.
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub name: String,
    #[prost(enumeration = "EventType", tag = "2")]
    #[serde(rename = "type", with = "event_type_json", skip_serializing_if = "json::is_default")]
    pub r#type: i32,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryInfo>,
}

/// The kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum EventType {
    Unspecified = 0,
    Create = 1,
    Write = 2,
    Remove = 3,
    Rename = 4,
    Chmod = 5,
}

json_enum!(EventType in event_type_json {
    Unspecified = "EVENT_TYPE_UNSPECIFIED",
    Create = "EVENT_TYPE_CREATE",
    Write = "EVENT_TYPE_WRITE",
    Remove = "EVENT_TYPE_REMOVE",
    Rename = "EVENT_TYPE_RENAME",
    Chmod = "EVENT_TYPE_CHMOD",
});

/// One message of a watch.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WatchDirResponse {
    #[prost(oneof = "WatchEvent", tags = "1, 2, 3")]
    pub event: Option<WatchEvent>,
}

/// The kinds of messages of a watch.
#[expect(clippy::large_enum_variant, reason = "one exists at a time, on its way out")]
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum WatchEvent {
    /// Everything from here on is told.
    #[prost(message, tag = "1")]
    Start(WatchStart),
    #[prost(message, tag = "2")]
    Filesystem(FilesystemEvent),
    #[prost(message, tag = "3")]
    Keepalive(KeepAlive),
}

json_oneof!(WatchDirResponse.event: WatchEvent {
    Start = "start" as Plain,
    Filesystem = "filesystem" as Plain,
    Keepalive = "keepalive" as Plain,
});

pub type WatchStart = Empty;
/// Nothing happened, and the stream lives.
pub type KeepAlive = Empty;
pub type GetWatcherEventsRequest = CreateWatcherResponse;
pub type RemoveWatcherRequest = CreateWatcherResponse;
pub type RemoveWatcherResponse = Empty;

#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CreateWatcherResponse {
    #[prost(string, tag = "1")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default",
        alias = "watcher_id"
    )]
    pub watcher_id: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct GetWatcherEventsResponse {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub events: Vec<FilesystemEvent>,
}
