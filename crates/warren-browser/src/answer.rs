//! Answers of the server of tools, as far as they can be passed on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The most that is answered of one text: clients show all of it to a model.
const MOST_TEXT: usize = 100_000;
/// The most blocks of one answer.
const MOST_BLOCKS: usize = 16;
/// The largest image that is shown: larger ones are too much for the common clients.
const MOST_IMAGE: usize = 1 << 20;
/// Files that are linked to in one answer.
const MOST_FILES: usize = 8;
/// A path in the sandbox.
const LONGEST_PATH: usize = 1024;
/// Where the server of tools puts its files, below the home of its user.
const FILES: &str = "/.playwright-mcp/";

/// The outcome of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    pub content: Vec<Content>,
    /// The tool says that it failed.
    pub failed: bool,
    /// Absolute paths of files that it wrote, as it says: snapshots, screenshots and downloads.
    pub files: Vec<String>,
    /// The entry in the journal, if it changed something.
    pub entry: Option<u64>,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Text(String),
    Image { media_type: &'static str, base64: String },
}

impl Answer {
    pub(crate) fn text(text: String) -> Self {
        Self { content: vec![Content::Text(text)], ..Self::default() }
    }

    /// Reads the result of a call; `None` if it is none.
    pub(crate) fn read(result: &Value) -> Option<Self> {
        let blocks = result.get("content")?.as_array()?;
        let content: Vec<Content> = blocks.iter().take(MOST_BLOCKS).map(read_block).collect();
        let files = files_in(&content);
        let failed = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
        Some(Self { content, failed, files, entry: None })
    }

    /// The first text.
    pub(crate) fn first_text(&self) -> Option<&str> {
        self.content.iter().find_map(|content| match content {
            Content::Text(text) => Some(text.as_str()),
            Content::Image { .. } => None,
        })
    }
}

fn read_block(block: &Value) -> Content {
    let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "text" => Content::Text(cut(text("text"))),
        "image" => image(text("data")),
        other => {
            let kind: String = other.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
            Content::Text(format!("[the browser also answered something of the type `{kind}`]"))
        }
    }
}

/// Only what begins as an image does is passed on as one.
fn image(base64: &str) -> Content {
    if base64.len() > MOST_IMAGE / 3 * 4 {
        let told = "[the image has more than 1 MiB: take one of an element, or as jpeg]";
        return Content::Text(told.to_owned());
    }
    let media_type = STANDARD.decode(base64).ok().and_then(|bytes| media_type(&bytes));
    match media_type {
        Some(media_type) => Content::Image { media_type, base64: base64.to_owned() },
        None => Content::Text("[the browser answered an image that is none]".to_owned()),
    }
}

/// The type of an image, by its first bytes.
pub(crate) fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        _ => None,
    }
}

fn cut(text: &str) -> String {
    if text.len() <= MOST_TEXT {
        return text.to_owned();
    }
    let half = MOST_TEXT / 2;
    let boundary = |at: &usize| text.is_char_boundary(*at);
    let head = (0..=half).rev().find(boundary).unwrap_or(0);
    let tail = (text.len() - half..=text.len()).find(boundary).unwrap_or(text.len());
    let left_out = tail - head;
    format!("{}\n[… {left_out} bytes left out …]\n{}", &text[..head], &text[tail..])
}

/// The files that texts name: `[Snapshot](/home/user/.playwright-mcp/page-….yml)`, and those that
/// the browser wrote of itself. A name is only a name: who reads the file is asked again.
fn files_in(content: &[Content]) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for text in content.iter().filter_map(|content| match content {
        Content::Text(text) => Some(text),
        Content::Image { .. } => None,
    }) {
        let words = text.split(|char: char| char.is_whitespace() || matches!(char, '(' | ')' | '"'));
        for word in words {
            let path = word.split('#').next().unwrap_or_default();
            let is_file = path.starts_with('/') && path.contains(FILES) && path.len() <= LONGEST_PATH;
            if is_file && !files.iter().any(|known| known == path) && files.len() < MOST_FILES {
                files.push(path.to_owned());
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_names_the_files_that_were_written() {
        let told = "### Snapshot\n- [Snapshot](/home/user/.playwright-mcp/page-1.yml)\n- New console entries: \
                    /home/user/.playwright-mcp/console.log#L1-L7\n- [x](/etc/passwd)";
        let answer = Answer::read(&json!({"content": [{"type": "text", "text": told}]})).unwrap();
        assert_eq!(
            answer.files,
            ["/home/user/.playwright-mcp/page-1.yml", "/home/user/.playwright-mcp/console.log"]
        );
        assert!(!answer.failed);
    }

    #[test]
    fn what_is_no_image_is_not_passed_on_as_one() {
        let page = STANDARD.encode("<script>alert(1)</script>");
        for data in [page.as_str(), "!!", ""] {
            let told = json!({"content": [{"type": "image", "mimeType": "image/png", "data": data}]});
            let content = Answer::read(&told).unwrap().content;
            assert!(matches!(content.as_slice(), [Content::Text(_)]), "{data}");
        }
        let jpeg = STANDARD.encode([0xff, 0xd8, 0xff, 0xe0]);
        let told = json!({"content": [{"type": "image", "mimeType": "text/html", "data": jpeg}]});
        let content = Answer::read(&told).unwrap().content;
        assert!(matches!(content.as_slice(), [Content::Image { media_type: "image/jpeg", .. }]));
    }

    #[test]
    fn a_sandbox_may_answer_anything() {
        for told in [
            json!(null),
            json!([]),
            json!({"content": 1}),
            json!({"content": [1, null, {"type": 7}, {"type": "text"}, {"type": "\u{1b}[2J"}]}),
        ] {
            if let Some(answer) = Answer::read(&told) {
                assert!(answer.content.len() <= MOST_BLOCKS);
            }
        }
        let long = "ä".repeat(MOST_TEXT);
        let many: Vec<_> = (0..100).map(|_| json!({"type": "text", "text": long})).collect();
        let answer = Answer::read(&json!({ "content": many })).unwrap();
        assert_eq!(answer.content.len(), MOST_BLOCKS);
        let Some(text) = answer.first_text() else { panic!("no text") };
        assert!(text.len() < MOST_TEXT + 100 && text.contains("left out"));
    }
}
