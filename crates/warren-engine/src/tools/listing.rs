//! `ls` and `glob`: what is there.

use std::path::Path;

use serde_json::{Value, json};
use warren_wire::guest::{EntryKind, FileEntry, FileOperation};

use super::Context;
use super::answer::{Answer, ToolError};
use super::fields::Fields;
use crate::{EngineError, Listing};

/// Entries that one call shows.
const MOST_ENTRIES: usize = 5000;
const MOST_DEPTH: u64 = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ls {
    path: Option<String>,
    depth: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    pattern: String,
    path: Option<String>,
}

pub(super) fn ls_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {
                "type": "string", "minLength": 1,
                "description": "The directory; the sandbox's working directory if absent."
            },
            "depth": {
                "type": "integer", "minimum": 1, "maximum": MOST_DEPTH,
                "description": "How many levels to show; 1 if absent."
            }
        },
        "required": [],
        "additionalProperties": false
    })
}

pub(super) fn glob_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": {
                "type": "string", "minLength": 1,
                "description": "What paths below the directory look like: `*`, `?`, `[…]`, `{a,b}`, and `**` for any number of directories."
            },
            "path": {
                "type": "string", "minLength": 1,
                "description": "The directory; the sandbox's working directory if absent."
            }
        },
        "required": ["pattern"],
        "additionalProperties": false
    })
}

impl Ls {
    pub(super) fn parse(mut fields: Fields) -> Result<Self, EngineError> {
        let path = fields.optional_words("path")?;
        let depth = fields.number("depth", 1, MOST_DEPTH)?.unwrap_or(1);
        fields.finish()?;
        Ok(Self { path, depth })
    }

    pub(super) async fn run(self, context: &Context) -> Result<Answer, ToolError> {
        let root = context.place(self.path.as_deref().unwrap_or(".")).await;
        let depth = u32::try_from(self.depth).unwrap_or(u32::MAX);
        let call = context.call(FileOperation::List { path: root.clone(), depth, detail: None });
        let (mut entries, more) = gather(context.guest.entries(call).await?).await?;
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let lines: Vec<String> = entries.iter().map(|entry| line(entry, root.as_path())).collect();
        Ok(answer(&lines, more, "it is empty", context))
    }
}

impl Glob {
    pub(super) fn parse(mut fields: Fields) -> Result<Self, EngineError> {
        let glob = Self { pattern: fields.words("pattern")?, path: fields.optional_words("path")? };
        fields.finish()?;
        Ok(glob)
    }

    pub(super) async fn run(self, context: &Context) -> Result<Answer, ToolError> {
        let root = context.place(self.path.as_deref().unwrap_or(".")).await;
        // One more than is shown, so that it is known whether there are more.
        let limit = u32::try_from(MOST_ENTRIES + 1).unwrap_or(u32::MAX);
        let call = context.call(FileOperation::Glob { root, pattern: self.pattern.into(), limit });
        let (mut entries, more) = gather(context.guest.entries(call).await?).await?;
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let lines: Vec<String> = entries.iter().map(|entry| entry.path.to_text().into_owned()).collect();
        Ok(answer(&lines, more, "nothing matches", context))
    }
}

/// Entries up to what is shown, and whether there are more.
async fn gather(mut listing: Listing) -> Result<(Vec<FileEntry>, bool), EngineError> {
    let mut entries = Vec::new();
    while let Some(part) = listing.next().await? {
        entries.extend(part);
        if entries.len() > MOST_ENTRIES {
            entries.truncate(MOST_ENTRIES);
            return Ok((entries, true));
        }
    }
    Ok((entries, false))
}

/// A path with what it is: a directory ends with a slash, a link tells its target, a file its size.
fn line(entry: &FileEntry, root: &Path) -> String {
    let path = entry.path.as_path();
    let path = path.strip_prefix(root).unwrap_or(path).display();
    match entry.kind {
        EntryKind::Directory => format!("{path}/"),
        EntryKind::File => format!("{path}\t{}", entry.size),
        EntryKind::Symlink => {
            format!("{path} -> {}", entry.target.as_ref().map(|target| target.to_text()).unwrap_or_default())
        }
        EntryKind::Fifo => format!("{path} (fifo)"),
        EntryKind::Socket => format!("{path} (socket)"),
        EntryKind::CharDevice | EntryKind::BlockDevice => format!("{path} (device)"),
    }
}

fn answer(lines: &[String], more: bool, none: &str, context: &Context) -> Answer {
    if lines.is_empty() {
        return Answer::short(format!("[{none}]"), false);
    }
    let mut text = lines.join("\n");
    text.push('\n');
    if more {
        text.push_str(&format!("[… there are more than {MOST_ENTRIES}: ask for less at a time …]\n"));
    }
    let mut answer = Answer::text(&text, context.most_output);
    if more && let Some(super::ContentBlock::Text { truncated, .. }) = answer.content.first_mut() {
        *truncated = true;
    }
    answer
}
