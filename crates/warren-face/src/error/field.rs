use warren_core::Field;
use warren_engine::Wording;

use super::ApiError;

/// The name that `/v1` has for a field, as it stands in a body.
pub fn name_of(field: &Field) -> String {
    let name = match field {
        Field::Memory => "memory_mib",
        Field::Disk => "disk_mib",
        Field::Lifetime => "ttl_s",
        Field::Workdir => "cwd",
        Field::RequiredMemory => "required.memory_mib",
        Field::Snapshot => "snapshot_id",
        Field::Session => "session_id",
        Field::ToolCall => "call_id",
        Field::ToolTime => "timeout_ms",
        Field::ToolOutput => "max_output_bytes",
        Field::ProvisionJob => "job_id",
        Field::Chat => "chat_id",
        Field::Agent => "agent_id",
        Field::Volume => "volume_host_path",
        same => return same.to_string(),
    };
    name.to_owned()
}

impl ApiError {
    /// A value that the engine cannot use, by the name of `/v1`. `at` is where in the body its
    /// owner stands.
    pub fn of_field(field: &Field, wording: &Wording, at: &str) -> Self {
        let name = name_of(field);
        Self::invalid(format!("{at}{name}"), wording.of(&name))
    }
}
