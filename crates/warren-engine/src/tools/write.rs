//! `write`: the whole content of a file.

use bytes::Bytes;
use serde_json::{Value, json};
use warren_wire::guest::{FileOperation, WriteMode};

use super::Context;
use super::answer::{Answer, ToolError};
use super::fields::Fields;
use crate::EngineError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    path: String,
    content: String,
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {
                "type": "string", "minLength": 1,
                "description": "The file. Directories that are missing are made; a file that exists is replaced."
            },
            "content": { "type": "string", "description": "All of the file's new content." }
        },
        "required": ["path", "content"],
        "additionalProperties": false
    })
}

impl Write {
    pub(super) fn parse(mut fields: Fields) -> Result<Self, EngineError> {
        let write = Self { path: fields.words("path")?, content: fields.text("content")? };
        fields.finish()?;
        Ok(write)
    }

    pub(super) async fn run(self, context: &Context) -> Result<Answer, ToolError> {
        let path = context.place(&self.path).await;
        let (mode, permissions) = (WriteMode::Replace, None);
        let call = context.call(FileOperation::Write { path, mode, permissions, parents: true });
        let mut file = context.guest.write(call).await?;
        file.write(Bytes::from(self.content)).await?;
        let bytes = file.finish().await?;
        Ok(Answer::short(format!("wrote {bytes} bytes to {}", self.path), false))
    }
}
