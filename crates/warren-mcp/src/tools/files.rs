//! The tools that only touch files: the engine's own, in the words of this protocol.

use rmcp::model::ContentBlock;
use serde_json::Value;
use warren_engine::{ContentBlock as Block, ToolCall, ToolResources};
use warren_face::error::ApiError;

use super::{Call, Effect, Tool};
use crate::answer::Answer;
use crate::uri;

/// The largest image that is shown, in base64: larger ones are too much for the common clients.
pub(super) const MOST_IMAGE: usize = (1 << 20) / 3 * 4;

pub(super) async fn call(tool: Tool, mut call: Call<'_>) -> Result<Answer, ApiError> {
    let sandbox = call.sandbox().await?;
    let params = call.fields.rest();
    let asked = ToolCall {
        tool: tool.name().to_owned(),
        call: call.id(),
        params,
        resources: ToolResources::default(),
        snapshot: false,
        session: None,
    };
    let path = asked.params.get("path").and_then(Value::as_str).map(str::to_owned);
    let result = sandbox.call_tool(asked, None).await?;
    let mut answer = Answer::default().failed(result.is_error);
    let mut cut = false;
    for block in result.content {
        answer = match block {
            Block::Text { text, truncated } => {
                cut |= truncated;
                answer.and(ContentBlock::text(text))
            }
            Block::Image { base64, .. } if base64.len() > MOST_IMAGE => {
                answer.and(ContentBlock::text("[the image has more than 1 MiB: make a smaller one of it]"))
            }
            Block::Image { media_type, base64 } => answer.and(ContentBlock::image(base64, media_type)),
        };
    }
    if let Some(path) = path.filter(|path| cut && tool == Tool::Read && path.starts_with('/')) {
        answer = answer.note("truncated", true).link(uri::file(sandbox.id(), &path), &path);
    }
    let entry = result.entry.filter(|_| tool.effect() != Effect::Looks && !result.is_error);
    let answer = answer.note("sandbox", sandbox.id().as_str()).note("duration_ms", result.duration_ms);
    Ok(answer.entered(entry))
}
