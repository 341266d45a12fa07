use serde_json::Value;
use warren_engine::{ContentBlock, ToolCall, ToolInfo, ToolProgress, ToolResources, ToolResult};
use warren_face::error::{ApiError, parsed};
use warren_face::sse::Message;
use warren_wire::api;

const LONGEST_CALL_ID: usize = 255;
const LONGEST_TIMEOUT_MS: u64 = 86_400_000;
const MOST_OUTPUT: u64 = 4 << 20;
const LEAST_MEMORY: u64 = 1 << 20;
const MOST_MEMORY: u64 = 4 << 40;

pub(crate) fn tool(info: &ToolInfo) -> api::Tool {
    api::Tool {
        name: info.name.to_owned(),
        description: info.description.to_owned(),
        tier: info.tier,
        parameters: info.parameters.clone(),
    }
}

pub(crate) fn tool_call(tool: String, body: api::ToolCall) -> Result<ToolCall, ApiError> {
    let visible = |id: &String| {
        (1..=LONGEST_CALL_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if !body.call_id.as_ref().is_none_or(visible) {
        return Err(ApiError::invalid("call_id", "`call_id` has 1 to 255 visible ASCII characters"));
    }
    Ok(ToolCall {
        tool,
        call: body.call_id,
        params: Value::Object(body.params.into_iter().collect()),
        resources: ToolResources {
            timeout_ms: within("timeout_ms", body.timeout_ms, 1, LONGEST_TIMEOUT_MS)?,
            most_output_bytes: within("max_output_bytes", body.max_output_bytes, 1, MOST_OUTPUT)?,
            memory_bytes: within("memory_bytes", body.memory_bytes, LEAST_MEMORY, MOST_MEMORY)?,
        },
        snapshot: body.snapshot,
        session: body.session_id.as_deref().map(|text| parsed("session_id", text)).transpose()?,
    })
}

fn within(field: &str, value: Option<u64>, least: u64, most: u64) -> Result<Option<u64>, ApiError> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(ApiError::invalid(field, format!("`{field}` must be from {least} to {most}")))
        }
        value => Ok(value),
    }
}

pub(crate) fn tool_result(result: ToolResult) -> api::ToolResult {
    api::ToolResult {
        content: result.content.into_iter().map(content).collect(),
        exit_code: result.exit_code,
        is_error: result.is_error,
        snapshot_id: result.snapshot.map(|id| id.to_string()),
        duration_ms: result.duration_ms,
        tier: result.tier,
        repeated: result.repeated,
    }
}

/// An event of a tool that runs.
pub(crate) fn tool_progress(progress: ToolProgress) -> Message {
    match progress {
        ToolProgress::Stdout(text) => Message::new("stdout", &api::ToolOutput { text }),
        ToolProgress::Stderr(text) => Message::new("stderr", &api::ToolOutput { text }),
    }
}

fn content(block: ContentBlock) -> api::ToolContent {
    match block {
        ContentBlock::Text { text, truncated } => api::ToolContent::Text { text, truncated },
        ContentBlock::Image { media_type, base64 } => api::ToolContent::Image { media_type, data: base64 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_value_is_named() {
        type Spoil = fn(&mut api::ToolCall);
        let cases: [(&str, Spoil); 8] = [
            ("call_id", |b| b.call_id = Some(String::new())),
            ("call_id", |b| b.call_id = Some("a b".into())),
            ("call_id", |b| b.call_id = Some("x".repeat(256))),
            ("timeout_ms", |b| b.timeout_ms = Some(0)),
            ("timeout_ms", |b| b.timeout_ms = Some(u64::MAX)),
            ("max_output_bytes", |b| b.max_output_bytes = Some(u64::MAX)),
            ("memory_bytes", |b| b.memory_bytes = Some(1)),
            ("session_id", |b| b.session_id = Some("sess-x".into())),
        ];
        for (field, spoil) in cases {
            let mut body = api::ToolCall::default();
            spoil(&mut body);
            let problem = tool_call("bash".into(), body).unwrap_err().problem();
            assert_eq!((problem.status, problem.field.as_deref()), (422, Some(field)));
        }
    }
}
