//! `read`: the lines of a text file, or an image.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use warren_wire::guest::FileOperation;

use super::answer::{Answer, ToolError};
use super::fields::Fields;
use super::{ContentBlock, Context};
use crate::{EngineError, FileReader};

/// Lines that are shown unless more are asked for.
const LINES: u64 = 2000;
const MOST_LINES: u64 = 1_000_000;
/// The largest image that is shown.
const MOST_IMAGE_BYTES: usize = 3_750_000;
/// A NUL in so many first bytes makes a file binary.
const PROBE_BYTES: usize = 8192;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    path: String,
    /// The first line, counted from 1.
    offset: u64,
    limit: u64,
    numbers: bool,
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "minLength": 1, "description": "The file." },
            "offset": {
                "type": "integer", "minimum": 1, "maximum": 1_000_000_000_000_u64,
                "description": "The first line to show, counted from 1."
            },
            "limit": {
                "type": "integer", "minimum": 1, "maximum": MOST_LINES,
                "description": "How many lines to show; 2000 if absent."
            },
            "numbers": { "type": "boolean", "description": "Begin each line with its number and a tab." }
        },
        "required": ["path"],
        "additionalProperties": false
    })
}

impl Read {
    pub(super) fn parse(mut fields: Fields) -> Result<Self, EngineError> {
        let read = Self {
            path: fields.words("path")?,
            offset: fields.number("offset", 1, 1_000_000_000_000)?.unwrap_or(1),
            limit: fields.number("limit", 1, MOST_LINES)?.unwrap_or(LINES),
            numbers: fields.flag("numbers")?,
        };
        fields.finish()?;
        Ok(read)
    }

    pub(super) async fn run(self, context: &Context) -> Result<Answer, ToolError> {
        let path = context.place(&self.path).await;
        let call = context.call(FileOperation::Read { path, offset: 0, length: None });
        let mut file = context.guest.read(call).await?;
        let first = beginning(&mut file).await?;
        if let Some(media_type) = image(&first) {
            return show_image(file, first, media_type).await;
        }
        if first.iter().take(PROBE_BYTES).any(|byte| *byte == 0) {
            return Err(ToolError::told(format!(
                "{} is no text but {} bytes of something else: look at it with a program, such as `file` or `xxd`",
                self.path, file.entry.size
            )));
        }
        let mut page = Page::new(&self, context.most_output);
        page.take(&first);
        while !page.is_full() {
            match file.next().await? {
                Some(bytes) => page.take(&bytes),
                None => {
                    page.end();
                    break;
                }
            }
        }
        page.answer(&self)
    }
}

/// As much of a file as tells what it is.
async fn beginning(file: &mut FileReader) -> Result<Vec<u8>, EngineError> {
    let mut first = Vec::new();
    while first.len() < PROBE_BYTES {
        match file.next().await? {
            Some(bytes) => first.extend_from_slice(&bytes),
            None => break,
        }
    }
    Ok(first)
}

/// The kind of image that begins so.
fn image(first: &[u8]) -> Option<&'static str> {
    match first {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

async fn show_image(mut file: FileReader, mut bytes: Vec<u8>, media_type: &str) -> Result<Answer, ToolError> {
    while let Some(more) = file.next().await? {
        bytes.extend_from_slice(&more);
        if bytes.len() > MOST_IMAGE_BYTES {
            return Err(ToolError::told(format!(
                "the image has {} bytes, and no more than {MOST_IMAGE_BYTES} are shown: make it smaller first",
                file.entry.size
            )));
        }
    }
    let block = ContentBlock::Image { media_type: media_type.to_owned(), base64: STANDARD.encode(&bytes) };
    Ok(Answer { content: vec![block], ..Answer::default() })
}

/// The lines of a file that are shown, up to so many bytes.
struct Page {
    text: Vec<u8>,
    line: Vec<u8>,
    /// Bytes of the line in hand, kept or not.
    length: usize,
    number: u64,
    first: u64,
    /// The first line that is not shown.
    end: u64,
    numbers: bool,
    most: usize,
    over: bool,
    cut: bool,
}

impl Page {
    fn new(read: &Read, most: usize) -> Self {
        Self {
            text: Vec::new(),
            line: Vec::new(),
            length: 0,
            number: 1,
            first: read.offset,
            end: read.offset.saturating_add(read.limit),
            numbers: read.numbers,
            most,
            over: false,
            cut: false,
        }
    }

    /// True if nothing more is wanted, although there is more.
    fn is_full(&self) -> bool {
        self.over
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.over {
            if self.number >= self.end {
                self.over = true;
                return;
            }
            let at = rest.iter().position(|byte| *byte == b'\n');
            let (piece, after) = rest.split_at(at.map_or(rest.len(), |at| at + 1));
            if self.number >= self.first {
                let room = self.most.saturating_sub(self.line.len());
                self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            self.length += piece.len();
            if at.is_some() {
                self.finish_line();
            }
            rest = after;
        }
    }

    fn end(&mut self) {
        if self.length > 0 {
            self.finish_line();
        }
    }

    fn finish_line(&mut self) {
        let (line, length) = (std::mem::take(&mut self.line), std::mem::take(&mut self.length));
        if self.number >= self.first {
            let number = if self.numbers { format!("{:>6}\t", self.number) } else { String::new() };
            let whole = line.len() == length && self.text.len() + number.len() + length <= self.most;
            if !whole && !self.text.is_empty() {
                // It is the first of the next page.
                self.over = true;
                return;
            }
            self.text.extend_from_slice(number.as_bytes());
            self.text.extend_from_slice(&line);
            if !whole {
                self.cut = true;
                self.over = true;
                self.text.extend_from_slice(format!("\n[… the line has {length} bytes …]\n").as_bytes());
            }
        }
        self.number += 1;
    }

    fn answer(self, read: &Read) -> Result<Answer, ToolError> {
        if self.text.is_empty() && !self.over && read.offset > 1 {
            let lines = self.number - 1;
            return Err(ToolError::told(format!(
                "{} has {lines} lines: there is no line {}",
                read.path, read.offset
            )));
        }
        let mut text = String::from_utf8_lossy(&self.text).into_owned();
        if self.over {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&format!("[… it goes on: read from line {} with `offset` …]\n", self.number));
        }
        Ok(Answer::short(text, self.over || self.cut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str, offset: u64, limit: u64, most: usize) -> Result<String, String> {
        let read = Read { path: "/f".to_owned(), offset, limit, numbers: false };
        let mut page = Page::new(&read, most);
        for piece in text.as_bytes().chunks(3) {
            page.take(piece);
        }
        if !page.is_full() {
            page.end();
        }
        match page.answer(&read) {
            Ok(Answer { content, .. }) => match content.into_iter().next() {
                Some(ContentBlock::Text { text, .. }) => Ok(text),
                other => panic!("{other:?}"),
            },
            Err(ToolError::Told(why)) => Err(why),
            Err(ToolError::Engine(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn lines_are_shown_from_one_to_another() {
        assert_eq!(page("a\nb\nc\n", 1, 9, 100).unwrap(), "a\nb\nc\n");
        assert_eq!(page("a\nb\nc", 2, 9, 100).unwrap(), "b\nc");
        assert_eq!(
            page("a\nb\nc\n", 1, 2, 100).unwrap(),
            "a\nb\n[… it goes on: read from line 3 with `offset` …]\n"
        );
        assert_eq!(page("a\nb\nc\n", 3, 1, 100).unwrap(), "c\n");
        assert_eq!(page("", 1, 9, 100).unwrap(), "");
    }

    #[test]
    fn a_line_that_is_not_there_is_told_with_their_number() {
        assert_eq!(page("a\nb\n", 5, 9, 100).unwrap_err(), "/f has 2 lines: there is no line 5");
    }

    #[test]
    fn a_page_ends_between_two_lines() {
        assert_eq!(
            page("aaaa\nbbbb\ncccc\n", 1, 9, 12).unwrap(),
            "aaaa\nbbbb\n[… it goes on: read from line 3 with `offset` …]\n"
        );
    }

    #[test]
    fn a_line_longer_than_a_page_is_cut() {
        let text = format!("{}\nb\n", "a".repeat(50));
        assert_eq!(
            page(&text, 1, 9, 10).unwrap(),
            "aaaaaaaaaa\n[… the line has 51 bytes …]\n[… it goes on: read from line 2 with `offset` …]\n"
        );
    }

    #[test]
    fn images_are_known_by_how_they_begin() {
        assert_eq!(image(b"\x89PNG\r\n\x1a\n...."), Some("image/png"));
        assert_eq!(image(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(image(b"GIF89a"), Some("image/gif"));
        assert_eq!(image(b"RIFF\x01\x02\x03\x04WEBPVP8 "), Some("image/webp"));
        assert_eq!(image(b"RIFF\x01\x02\x03\x04WAVE"), None);
    }
}
