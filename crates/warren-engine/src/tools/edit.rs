//! `edit`: replaces a text in a file by another. The file has the old content or the new one, never
//! a mix.

use bytes::Bytes;
use serde_json::{Value, json};
use warren_wire::guest::{FileEntry, FileOperation, WriteMode};

use super::Context;
use super::answer::{Answer, ToolError};
use super::fields::Fields;
use crate::EngineError;

/// The largest file that is edited.
const MOST_BYTES: usize = 16 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    path: String,
    old: String,
    new: String,
    replace_all: bool,
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "minLength": 1, "description": "The file." },
            "old": {
                "type": "string", "minLength": 1,
                "description": "The text to replace, exactly as it is in the file. It must occur once, unless `replace_all` is set."
            },
            "new": { "type": "string", "description": "What to put in its place." },
            "replace_all": { "type": "boolean", "description": "Replace it wherever it occurs." }
        },
        "required": ["path", "old", "new"],
        "additionalProperties": false
    })
}

impl Edit {
    pub(super) fn parse(mut fields: Fields) -> Result<Self, EngineError> {
        let edit = Self {
            path: fields.words("path")?,
            old: fields.words("old")?,
            new: fields.text("new")?,
            replace_all: fields.flag("replace_all")?,
        };
        fields.finish()?;
        Ok(edit)
    }

    pub(super) async fn run(self, context: &Context) -> Result<Answer, ToolError> {
        if self.old == self.new {
            return Err(ToolError::told("`old` and `new` are the same: there is nothing to change"));
        }
        let path = context.place(&self.path).await;
        let read = FileOperation::Read { path: path.clone(), offset: 0, length: None };
        let mut file = context.guest.read(context.call(read)).await?;
        let mut content = Vec::new();
        while let Some(bytes) = file.next().await? {
            content.extend_from_slice(&bytes);
            if content.len() > MOST_BYTES {
                let size = file.entry.size;
                return Err(ToolError::told(format!(
                    "{} has {size} bytes, and no more than {MOST_BYTES} are edited: use a program, such as `sed`",
                    self.path
                )));
            }
        }
        let (edited, lines) = self.apply(&content)?;
        let (mode, permissions) = (WriteMode::Replace, None);
        let write = FileOperation::Write { path: path.clone(), mode, permissions, parents: false };
        let mut writer = context.guest.write(context.call(write)).await?;
        writer.write(Bytes::from(edited)).await?;
        let now = context
            .guest
            .stat(context.call(FileOperation::Stat { path, follow: true, detail: None }))
            .await?;
        if !is_same(&file.entry, &now) {
            // The writer is dropped before its end, so nothing is changed.
            return Err(ToolError::told(format!(
                "{} was changed by somebody else meanwhile: nothing was edited, read it again",
                self.path
            )));
        }
        writer.finish().await?;
        Ok(Answer::short(self.report(&lines), false))
    }

    /// The new content, and the lines at which it differs.
    fn apply(&self, content: &[u8]) -> Result<(Vec<u8>, Vec<usize>), ToolError> {
        let (old, new) = (self.old.as_bytes(), self.new.as_bytes());
        let mut edited = Vec::with_capacity(content.len() + new.len());
        let (mut lines, mut line, mut done) = (Vec::new(), 1, 0);
        while let Some(at) = find(&content[done..], old) {
            let between = &content[done..done + at];
            line += newlines(between);
            lines.push(line);
            line += newlines(old);
            edited.extend_from_slice(between);
            edited.extend_from_slice(new);
            done += at + old.len();
        }
        edited.extend_from_slice(&content[done..]);
        match lines.len() {
            0 => Err(ToolError::told(self.not_there(content))),
            1 => Ok((edited, lines)),
            _ if self.replace_all => Ok((edited, lines)),
            count => Err(ToolError::told(format!(
                "`old` occurs {count} times in {} (lines {}): take in more of what is around the one you mean, or set `replace_all`",
                self.path,
                list(&lines)
            ))),
        }
    }

    fn not_there(&self, content: &[u8]) -> String {
        let path = &self.path;
        let windows =
            self.old.contains('\n') && !self.old.contains("\r\n") && find(content, b"\r\n").is_some();
        let hint = if windows { "; its lines end with CR LF, those of `old` with LF" } else { "" };
        format!("`old` does not occur in {path} (0 matches): it must be there exactly, spaces and all{hint}")
    }

    fn report(&self, lines: &[usize]) -> String {
        match lines {
            [line] => format!("replaced 1 occurrence in {}, at line {line}", self.path),
            _ => format!("replaced {} occurrences in {}, at lines {}", lines.len(), self.path, list(lines)),
        }
    }
}

/// True if nobody wrote to a file between two looks.
fn is_same(before: &FileEntry, now: &FileEntry) -> bool {
    (before.inode, before.size, before.modified_ns) == (now.inode, now.size, now.modified_ns)
}

fn find(content: &[u8], text: &[u8]) -> Option<usize> {
    let first = *text.first()?;
    let mut from = 0;
    while let Some(at) = content.get(from..)?.iter().position(|byte| *byte == first) {
        if content[from + at..].starts_with(text) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

fn newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

fn list(lines: &[usize]) -> String {
    const SHOWN: usize = 10;
    let mut text = lines.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if lines.len() > SHOWN {
        text.push_str(", …");
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(old: &str, new: &str, replace_all: bool) -> Edit {
        Edit { path: "/f".to_owned(), old: old.to_owned(), new: new.to_owned(), replace_all }
    }

    fn refusal(edit: &Edit, content: &str) -> String {
        match edit.apply(content.as_bytes()) {
            Err(ToolError::Told(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_text_that_occurs_more_than_once_is_counted() {
        let why = refusal(&edit("a", "b", false), "a\nx\na a\n");
        assert!(why.contains("occurs 3 times") && why.contains("lines 1, 3, 3"), "{why}");
    }

    #[test]
    fn a_text_that_does_not_occur_is_told_with_a_likely_reason() {
        assert!(refusal(&edit("q", "b", false), "a\n").contains("0 matches"));
        assert!(refusal(&edit("a\nb", "c", false), "a\r\nb\r\n").contains("CR LF"));
    }

    #[test]
    fn bytes_around_that_are_no_text_stay() {
        let (edited, lines) = edit("old", "new", false).apply(b"\xff\xfe\nold\n\x80").unwrap();
        assert_eq!((edited.as_slice(), lines), (&b"\xff\xfe\nnew\n\x80"[..], vec![2]));
    }

    proptest! {
        #[test]
        fn all_are_replaced_as_the_library_would(content in "[ab\n]{0,40}", old in "[ab]{1,3}", new in "[abc]{0,3}") {
            let outcome = edit(&old, &new, true).apply(content.as_bytes());
            match outcome {
                Ok((edited, lines)) => {
                    prop_assert_eq!(String::from_utf8(edited).unwrap(), content.replace(&old, &new));
                    prop_assert_eq!(lines.len(), content.matches(&old).count());
                }
                Err(_) => prop_assert!(!content.contains(&old)),
            }
        }
    }
}
