//! Bodies of template builds.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Something is to be built.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RequestBuild {
    /// With a tag, if it has a `:`.
    pub name: Option<String>,
    pub tags: Option<Vec<String>>,
    /// The name, in the field of earlier clients.
    pub alias: Option<String>,
    pub cpu_count: Option<u32>,
    #[serde(rename = "memoryMB")]
    pub memory_mb: Option<u64>,
}

/// Where it is going to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestedBuild {
    #[serde(rename = "templateID")]
    pub template_id: String,
    #[serde(rename = "buildID")]
    pub build_id: String,
    pub public: bool,
    /// With the owner before them.
    pub names: Vec<String>,
    pub tags: Vec<String>,
    pub aliases: Vec<String>,
}

/// Where files for a step go to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileUpload {
    /// They are there already.
    pub present: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The build to be made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StartBuild {
    pub from_image: Option<String>,
    pub from_template: Option<String>,
    pub from_image_registry: Option<Value>,
    /// Nothing of earlier builds is used.
    pub force: Option<bool>,
    pub steps: Option<Vec<Step>>,
    pub start_cmd: Option<String>,
    pub ready_cmd: Option<String>,
}

/// One step of a build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Step {
    #[serde(rename = "type")]
    pub kind: String,
    pub args: Option<Vec<String>>,
    pub files_hash: Option<String>,
    pub force: Option<bool>,
}

/// How far a build is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuildStatus {
    Building,
    Waiting,
    Ready,
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildInfo {
    /// Always empty: what there is to say is in the entries.
    pub logs: Vec<String>,
    pub log_entries: Vec<BuildLogEntry>,
    #[serde(rename = "templateID")]
    pub template_id: String,
    #[serde(rename = "buildID")]
    pub build_id: String,
    pub status: BuildStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<BuildReason>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildLogEntry {
    pub timestamp: String,
    pub message: String,
    pub level: LogLevel,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// How important a line of a log is, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

/// Why a build failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildReason {
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildLogs {
    pub logs: Vec<BuildLogEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliasInfo {
    #[serde(rename = "templateID")]
    pub template_id: String,
    pub public: bool,
}

/// More tags for what `target` names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AssignTags {
    pub target: String,
    pub tags: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignedTags {
    pub tags: Vec<String>,
    #[serde(rename = "buildID")]
    pub build_id: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteTags {
    pub name: String,
    pub tags: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateTag {
    pub tag: String,
    #[serde(rename = "buildID")]
    pub build_id: String,
    pub created_at: String,
}

/// A template, as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    #[serde(rename = "templateID")]
    pub template_id: String,
    #[serde(rename = "buildID")]
    pub build_id: String,
    pub cpu_count: u32,
    #[serde(rename = "memoryMB")]
    pub memory_mb: u64,
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u64,
    pub public: bool,
    pub aliases: Vec<String>,
    pub names: Vec<String>,
    pub created_at: String,
    pub updated_at: String,
    /// Nobody keeps it.
    pub created_by: Option<Value>,
    pub last_spawned_at: Option<String>,
    pub spawn_count: u64,
    pub build_count: u64,
    pub envd_version: String,
    pub build_status: BuildStatus,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateWithBuilds {
    #[serde(flatten)]
    pub template: Template,
    pub builds: Vec<Build>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Build {
    #[serde(rename = "buildID")]
    pub build_id: String,
    pub status: BuildStatus,
    pub created_at: String,
    pub updated_at: String,
    pub cpu_count: u32,
    #[serde(rename = "memoryMB")]
    pub memory_mb: u64,
    pub envd_version: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateTemplate {
    pub public: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdatedTemplate {
    pub names: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagsCount {
    pub total: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TagExists {
    pub exists: bool,
    pub normalized_tag: String,
}

/// When a tag was put on a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TagAssignment {
    pub assignment_id: String,
    pub build_id: String,
    pub assigned_at: String,
    pub build_created_at: String,
    pub build_finished_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TagAssignments {
    pub data: Vec<TagAssignment>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TagGroup {
    pub tag: String,
    pub assignments: Vec<TagAssignment>,
    pub has_more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TagGroups {
    pub tags: Vec<TagGroup>,
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_clients_send_is_read_leniently() {
        let body = json!({"name": "app:v1", "memoryMB": 512, "teamID": null, "cpuCount": null, "new": 1});
        let read: RequestBuild = serde_json::from_value(body).unwrap();
        assert_eq!((read.name.as_deref(), read.memory_mb, read.cpu_count), (Some("app:v1"), Some(512), None));
        let body = json!({
            "fromTemplate": "base",
            "steps": [{"type": "RUN", "args": ["true"], "force": false, "extra": {}}, {"type": "USER"}],
            "force": null,
        });
        let read: StartBuild = serde_json::from_value(body).unwrap();
        assert_eq!(read.steps.unwrap()[0].args.as_deref(), Some(["true".to_owned()].as_slice()));
    }

    #[test]
    fn ids_are_written_as_clients_read_them() {
        let text = serde_json::to_value(AssignedTags { tags: vec![], build_id: "b".to_owned() }).unwrap();
        assert_eq!(text, json!({"tags": [], "buildID": "b"}));
        let upload = serde_json::to_value(FileUpload { present: true, url: None }).unwrap();
        assert_eq!(upload, json!({"present": true}));
        let status = serde_json::to_value(BuildStatus::Error).unwrap();
        assert_eq!(status, json!("error"));
    }
}
