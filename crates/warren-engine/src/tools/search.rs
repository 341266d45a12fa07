//! `grep`: lines that match, with those around them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use warren_wire::guest::{ByteString, FileOperation, GrepMatch, GrepQuery};

use super::answer::{Answer, ToolError};
use super::fields::Fields;
use super::{ContentBlock, Context};
use crate::EngineError;

const MATCHES: u64 = 200;
const MOST_MATCHES: u64 = 5000;
const MOST_CONTEXT: u64 = 20;
/// Bytes of a line around a match that are shown.
const LINE_BYTES: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grep {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    ignore_case: bool,
    context: u64,
    most: u64,
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": {
                "type": "string", "minLength": 1,
                "description": "A regular expression, without look-around and back-references."
            },
            "path": {
                "type": "string", "minLength": 1,
                "description": "A directory or a file; the sandbox's working directory if absent."
            },
            "glob": {
                "type": "string", "minLength": 1,
                "description": "Only files whose path looks so; one without a slash is compared with the name alone."
            },
            "ignore_case": { "type": "boolean", "description": "Take upper and lower case for the same." },
            "context": {
                "type": "integer", "minimum": 0, "maximum": MOST_CONTEXT,
                "description": "How many lines to show before and after each match."
            },
            "most": {
                "type": "integer", "minimum": 1, "maximum": MOST_MATCHES,
                "description": "How many matches to show; 200 if absent."
            }
        },
        "required": ["pattern"],
        "additionalProperties": false
    })
}

impl Grep {
    pub(super) fn parse(mut fields: Fields) -> Result<Self, EngineError> {
        let grep = Self {
            pattern: fields.words("pattern")?,
            path: fields.optional_words("path")?,
            glob: fields.optional_words("glob")?,
            ignore_case: fields.flag("ignore_case")?,
            context: fields.number("context", 0, MOST_CONTEXT)?.unwrap_or(0),
            most: fields.number("most", 1, MOST_MATCHES)?.unwrap_or(MATCHES),
        };
        fields.finish()?;
        Ok(grep)
    }

    pub(super) async fn run(self, context: &Context) -> Result<Answer, ToolError> {
        let files = self.glob.map(|glob| if glob.contains('/') { glob } else { format!("**/{glob}") });
        let query = GrepQuery {
            root: context.place(self.path.as_deref().unwrap_or(".")).await,
            pattern: self.pattern,
            ignore_case: self.ignore_case,
            files: files.map(ByteString::from),
            // One more than is shown, so that it is known whether there are more.
            limit: u32::try_from(self.most + 1).unwrap_or(u32::MAX),
        };
        let found = context.guest.grep(context.call(FileOperation::Grep(query))).await?;
        let mut matches = found.items;
        let most = usize::try_from(self.most).unwrap_or(usize::MAX);
        let more = found.more || matches.len() > most;
        matches.truncate(most);
        let shown = matches.len();
        if matches.is_empty() {
            return Ok(Answer::short("[nothing matches]".to_owned(), false));
        }
        let mut text = String::new();
        for (path, found) in by_file(matches) {
            let around = match self.context {
                0 => BTreeMap::new(),
                lines => surroundings(context, &path, &found, lines).await?,
            };
            show(&mut text, &path, &found, &around);
        }
        if more {
            text.push_str(&format!("[… there are more than {shown} matches …]\n"));
        }
        let mut answer = Answer::text(&text, context.most_output);
        if more && let Some(ContentBlock::Text { truncated, .. }) = answer.content.first_mut() {
            *truncated = true;
        }
        Ok(answer)
    }
}

/// Matches by file, in the order in which they were found, each file's by line.
fn by_file(matches: Vec<GrepMatch>) -> Vec<(ByteString, BTreeMap<u64, String>)> {
    let mut files: Vec<(ByteString, BTreeMap<u64, String>)> = Vec::new();
    for GrepMatch { path, line, text } in matches {
        let text = text.to_text().into_owned();
        match files.last_mut() {
            Some((last, lines)) if *last == path => drop(lines.insert(line, text)),
            _ => files.push((path, BTreeMap::from([(line, text)]))),
        }
    }
    files
}

/// The lines around the matches of a file. One that has gone meanwhile has none.
async fn surroundings(
    context: &Context,
    path: &ByteString,
    found: &BTreeMap<u64, String>,
    lines: u64,
) -> Result<BTreeMap<u64, String>, ToolError> {
    let wanted: BTreeSet<u64> = found
        .keys()
        .flat_map(|line| line.saturating_sub(lines).max(1)..=line.saturating_add(lines))
        .filter(|line| !found.contains_key(line))
        .collect();
    let Some(last) = wanted.last().copied() else { return Ok(BTreeMap::new()) };
    let call = context.call(FileOperation::Read { path: path.clone(), offset: 0, length: None });
    let mut file = match context.guest.read(call).await {
        Ok(file) => file,
        Err(EngineError::Refused(_)) => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.into()),
    };
    let mut picker = Picker { wanted, line: 1, held: Vec::new(), picked: BTreeMap::new() };
    while picker.line <= last {
        match file.next().await? {
            Some(bytes) => picker.take(&bytes),
            None => {
                if !picker.held.is_empty() {
                    picker.finish_line();
                }
                break;
            }
        }
    }
    Ok(picker.picked)
}

/// Picks lines out of a file that arrives in pieces.
struct Picker {
    wanted: BTreeSet<u64>,
    line: u64,
    held: Vec<u8>,
    picked: BTreeMap<u64, String>,
}

impl Picker {
    fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            self.hold(&rest[..at]);
            self.finish_line();
            rest = &rest[at + 1..];
        }
        self.hold(rest);
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.wanted.contains(&self.line) {
            let room = LINE_BYTES.saturating_sub(self.held.len());
            self.held.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn finish_line(&mut self) {
        let held = std::mem::take(&mut self.held);
        if self.wanted.contains(&self.line) {
            let text = String::from_utf8_lossy(held.strip_suffix(b"\r").unwrap_or(&held)).into_owned();
            self.picked.insert(self.line, text);
        }
        self.line += 1;
    }
}

/// As `grep -n` shows it: a colon for a match, a dash for what is around it.
fn show(text: &mut String, path: &ByteString, found: &BTreeMap<u64, String>, around: &BTreeMap<u64, String>) {
    let path = path.to_text();
    let lines: BTreeSet<u64> = found.keys().chain(around.keys()).copied().collect();
    let mut previous: Option<u64> = None;
    for line in lines {
        let apart = previous.map_or(!text.is_empty(), |previous| line > previous + 1);
        if apart && !around.is_empty() {
            text.push_str("--\n");
        }
        match (found.get(&line), around.get(&line)) {
            (Some(found), _) => text.push_str(&format!("{path}:{line}:{found}\n")),
            (None, Some(around)) => text.push_str(&format!("{path}-{line}-{around}\n")),
            (None, None) => {}
        }
        previous = Some(line);
    }
}
