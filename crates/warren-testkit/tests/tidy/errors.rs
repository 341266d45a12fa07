//! The vocabulary of errors is the only one, and is used.

use warren_core::ErrorCode;

use crate::lexer::Source;
use crate::tree::{complain, files, read};

/// Files that render codes. They say none of their own.
const RENDERERS: [&str; 7] = [
    "warren-core/src/error.rs",
    "error/status.rs",
    "warren-e2b/src/error.rs",
    "envd/refusal.rs",
    "rpc/error.rs",
    "chat/refusal.rs",
    "warren/src/error.rs",
];

/// Ways to look into the words of an error.
const LOOKS_INTO_WORDS: [&str; 8] = [
    "message.contains(",
    "message.starts_with(",
    "message ==",
    "detail.contains(",
    "detail.starts_with(",
    "detail ==",
    ".to_string().contains(",
    ".to_string().starts_with(",
];

/// Agents from before there were reasons are understood by their words, and logs are searched for
/// some.
const MAY_LOOK: [&str; 2] = ["warren-wire/src/guest/request.rs", "/logs.rs"];

/// The code of all sources that are not tests, by path.
fn sources() -> Vec<(String, String)> {
    let paths = files(&["rs"]).into_iter().map(|path| (path.display().to_string(), read(&path)));
    let shipped = paths.filter(|(path, _)| {
        path.starts_with("crates/")
            && path.contains("/src/")
            && !path.contains("test")
            && !path.contains("bench")
    });
    shipped
        .map(|(path, text)| {
            let code = Source::of(&text).code;
            let end = code.find("#[cfg(test)]\nmod ").unwrap_or(code.len());
            (path, code[..end].to_owned())
        })
        .collect()
}

fn first_word(text: &str) -> &str {
    text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default()
}

#[test]
fn every_code_of_an_error_is_said_somewhere() {
    let mut sources = sources();
    sources.retain(|(path, _)| !RENDERERS.iter().any(|renderer| path.ends_with(renderer)));
    let is_said = |code: &ErrorCode| {
        let word = format!("{code:?}");
        let said = |text: &str| text.split("Code::").skip(1).any(|rest| first_word(rest) == word);
        sources.iter().any(|(_, text)| said(text))
    };
    let unsaid: Vec<String> =
        ErrorCode::ALL.iter().filter(|code| !is_said(code)).map(|code| code.as_str().to_owned()).collect();
    complain("codes that nothing answers", &unsaid);
}

#[test]
fn no_program_branches_on_the_words_of_an_error() {
    let mut complaints = Vec::new();
    let may_look = |path: &str| MAY_LOOK.iter().any(|known| path.ends_with(known));
    for (path, text) in sources().iter().filter(|(path, _)| !may_look(path)) {
        for (number, line) in text.lines().enumerate() {
            if let Some(way) = LOOKS_INTO_WORDS.iter().find(|way| line.contains(**way)) {
                complaints.push(format!("{path}:{}: `{way}`", number + 1));
            }
        }
    }
    complain("errors have codes to branch on", &complaints);
}
