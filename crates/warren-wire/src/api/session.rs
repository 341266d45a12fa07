use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::sandbox::TimeoutsRequest;
use super::{
    CreateSandbox, Limits, Profile, Run, RunLimits, RunLimitsRequest, RunTotals, Sandbox, SandboxType,
    Timeouts,
};

/// A request for a session with a sandbox: the preferred one if it exists and fits, else a fresh
/// one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"client": "agent-7", "sandbox": {"memory_mib": 512}, "limits": {"runs": 5, "tokens": 20000}})))]
pub struct AcquireSession {
    /// The name of the caller, in its own words.
    #[cfg_attr(
        feature = "schema",
        schema(
            min_length = 1,
            max_length = 200,
            pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
            example = "agent-7"
        )
    )]
    pub client: String,
    /// The sandbox to make, if a fresh one is needed.
    #[serde(default)]
    pub sandbox: CreateSandbox,
    /// The type of the sandbox to make: `sandbox.type` in short.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<SandboxType>,
    /// Attach to this one if it exists and fits. Any word for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^(@last|@default|[a-z][a-z0-9-]{0,62})$"))]
    pub preferred_sandbox_id: Option<String>,
    /// Make a fresh one whatever exists.
    #[serde(default)]
    pub require_fresh: bool,
    /// Abilities that the sandbox must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<Requirements>,
    /// The backend that must serve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 63))]
    pub backend: Option<String>,
    /// Limits on the session's runs. Given, the session ends after `duration_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<RunLimitsRequest>,
    /// Take the limits of this class of customers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 63))]
    pub tier: Option<String>,
    /// The session's own labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(schema_with = super::schema::words))]
    pub labels: BTreeMap<String, String>,
    /// Anything to remember with the session.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(schema_with = super::schema::words))]
    pub metadata: BTreeMap<String, String>,
    /// Answer at once and make the sandbox in the background.
    #[serde(default)]
    pub background: bool,
}

/// Abilities that a session's sandbox must have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Requirements {
    /// Reach the Internet.
    pub network: bool,
    /// Write to its files.
    pub write_access: bool,
    /// At least this much memory, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 4_194_304))]
    pub memory_mib: Option<u64>,
    /// Absolute paths inside that can be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readable: Vec<String>,
    /// Absolute paths inside that can be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
    /// Labels that a preferred sandbox has; a fresh one gets them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(schema_with = super::schema::words))]
    pub labels: BTreeMap<String, String>,
}

/// A request to join a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"sandbox_id": "sbxh7777777777777777777777777", "client": "agent-7"})))]
pub struct AttachSession {
    /// Which one: its id, the beginning of it, its name, `@last` or `@default`.
    #[cfg_attr(feature = "schema", schema(pattern = "^(@last|@default|[a-z][a-z0-9-]{0,62})$"))]
    pub sandbox_id: String,
    /// The name of the caller, in its own words.
    #[cfg_attr(
        feature = "schema",
        schema(
            min_length = 1,
            max_length = 200,
            pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
        )
    )]
    pub client: String,
    /// Make another if there is no such sandbox any more.
    #[serde(default)]
    pub create_if_missing: bool,
    /// The other sandbox to make. Only with `create_if_missing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<CreateSandbox>,
    /// The session's own times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<TimeoutsRequest>,
}

/// A client's lease on a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Session {
    #[cfg_attr(feature = "schema", schema(pattern = "^sess-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))]
    pub session_id: String,
    #[cfg_attr(feature = "schema", schema(pattern = "^sbx[a-z2-7]{26}$"))]
    pub sandbox_id: String,
    /// The name of its user, in the client's own words.
    pub client: String,
    #[serde(rename = "type")]
    pub kind: SandboxType,
    pub state: SessionState,
    pub provision: Provision,
    pub limits: RunLimits,
    pub totals: RunTotals,
    /// The class of customers whose limits these are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub created_at: String,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub last_activity_at: String,
    /// When the session itself ends. Absent: it has no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub expires_at: Option<String>,
    /// Until then a detached session waits for its client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub detached_until: Option<String>,
    /// Until then the client's model works, and the sandbox does not count as idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub thinking_until: Option<String>,
    pub timeouts: Timeouts,
    /// Its sandbox. Left out of lists, and once the sandbox is forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// How many snapshots its sandbox has. Left out of answers to changes of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_count: Option<u64>,
    /// The sandbox was made for this request. Only in answers to acquire and attach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<bool>,
    /// The abilities of the sandbox. Only in answers to acquire and attach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
}

/// The abilities of a sandbox, as far as its client has to know them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Capabilities {
    /// Which backend isolates it.
    pub backend: String,
    pub profile: Profile,
    pub limits: Limits,
    /// It can reach something beyond itself.
    pub has_network: bool,
    /// Rules of what it may reach, less what its policy denies; `*` is everything public.
    pub allowed_destinations: Vec<String>,
    pub can_write_filesystem: bool,
    /// Where its root, its mounts and its system directories begin. All of them can be read, as far
    /// as the rights of its user go.
    pub readable_paths: Vec<String>,
    /// The ones that can also be written. The deepest one that holds a path decides.
    pub writable_paths: Vec<String>,
    /// System calls that no program needs are refused.
    pub syscall_filter_active: bool,
    /// Its files stay when its time is over.
    pub is_persistent: bool,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub created_at: String,
    /// Until its time to live ends.
    pub time_remaining_ms: u64,
}

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum SessionState {
    Active,
    Detached,
    Suspended,
    Expired,
    Released,
    Terminated,
}

/// How far the making of what a session needs has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Provision {
    pub state: ProvisionState,
    /// Where the sandbox's service answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The client's own name for the work that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// See [`Provision`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ProvisionState {
    Pending,
    Ready,
    Failed,
}

/// A session with its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SessionDetails {
    pub session: Session,
    /// The first one first.
    pub runs: Vec<Run>,
}

/// Gives a session back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReleaseSession {
    /// Keep the sandbox's files if no other session holds it; otherwise it is deleted.
    pub keep_alive: bool,
}

impl Default for ReleaseSession {
    fn default() -> Self {
        Self { keep_alive: true }
    }
}

/// Says that the client's model works: the sandbox does not count as idle meanwhile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Thinking {
    /// For how long at most. Zero: it works no more.
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 3600))]
    pub seconds: u64,
}

/// Says that what the session needs is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MarkReady {
    /// Where the sandbox's service answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_length = 2048))]
    pub url: Option<String>,
    /// The client's own name for the work that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_length = 200))]
    pub job_id: Option<String>,
}

/// Says that what the session needs could not be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MarkFailed {
    /// Why.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4096))]
    pub reason: String,
}
