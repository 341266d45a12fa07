//! Tells code from comments and literals, so that a forbidden word in a string or in prose is not
//! taken for code.

/// A Rust source in parts, line for line. In each part everything else is blank.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) code: String,
    pub(crate) comments: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Source {
    pub(crate) fn of(text: &str) -> Self {
        let mut source = Self { code: String::new(), comments: String::new() };
        let mut rest = text;
        let mut in_word = false;
        while !rest.is_empty() {
            let (length, kind) = token(rest, in_word);
            let (taken, after) = rest.split_at(length);
            source.push(taken, kind);
            in_word = taken.chars().next_back().is_some_and(is_word);
            rest = after;
        }
        source
    }

    fn push(&mut self, text: &str, kind: Kind) {
        let blank: String = text.chars().map(|char| if char == '\n' { '\n' } else { ' ' }).collect();
        self.code.push_str(if kind == Kind::Code { text } else { &blank });
        self.comments.push_str(if kind == Kind::Comment { text } else { &blank });
    }
}

/// True if `text` has `word` as a whole word.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// The length and kind of the text's first token.
fn token(text: &str, in_word: bool) -> (usize, Kind) {
    if text.starts_with("//") {
        return (text.find('\n').unwrap_or(text.len()), Kind::Comment);
    }
    if text.starts_with("/*") {
        return (block_comment(text), Kind::Comment);
    }
    if text.starts_with('"') {
        return (quoted(text, '"'), Kind::Literal);
    }
    if let Some(length) = raw_string(text).filter(|_| !in_word) {
        return (length, Kind::Literal);
    }
    if let Some(length) = character(text).filter(|_| !in_word) {
        return (length, Kind::Literal);
    }
    (text.chars().next().map_or(0, char::len_utf8), Kind::Code)
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of a literal that ends at the next `quote` without a backslash before it.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, char) in text.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if char == quote => return at + char.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let start = ["br", "cr", "r"].iter().find(|prefix| text.starts_with(**prefix))?.len();
    let hashes = text[start..].bytes().take_while(|byte| *byte == b'#').count();
    let opening = start + hashes + 1;
    if !text[start + hashes..].starts_with('"') {
        return None;
    }
    let closing = format!("\"{}", "#".repeat(hashes));
    Some(text[opening..].find(&closing).map_or(text.len(), |at| opening + at + closing.len()))
}

/// A character literal, which a lifetime is not: that has no second quote after one character.
fn character(text: &str) -> Option<usize> {
    let literal = text.strip_prefix('b').unwrap_or(text);
    let prefix = text.len() - literal.len();
    let inside = literal.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        return Some(prefix + quoted(literal, '\''));
    }
    let length = inside.chars().next()?.len_utf8();
    inside[length..].starts_with('\'').then_some(prefix + length + 2)
}

#[test]
fn code_comments_and_literals_are_told_apart() {
    let text =
        "let a = \"x // \\\" y\"; // why\nlet b: &'a str = r#\"/* \"# ; /* one /* two */ */ c('\"', b'\\'')";
    let source = Source::of(text);
    assert_eq!(source.code.split_whitespace().collect::<String>(), "leta=;letb:&'astr=;c(,)");
    assert_eq!(
        source.comments.split_whitespace().collect::<Vec<_>>(),
        ["//", "why", "/*", "one", "/*", "two", "*/", "*/"]
    );
    assert_eq!(source.code.lines().count(), text.lines().count());
}

#[test]
fn a_word_is_found_whole() {
    assert!(has_word("an unsafe { }", "unsafe"));
    assert!(!has_word("unsafe_code", "unsafe"));
    assert!(!has_word("#![forbid(very_unsafe)]", "unsafe"));
}
