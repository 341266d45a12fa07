//! Rules about the prose in sources.

use crate::lexer::Source;
use crate::tree::{complain, files, read};

const MOST_COLUMNS: usize = 100;

/// Words that make a doc comment a riddle: it says what a thing is only when read to its end.
const POOR_BEGINNINGS: [&str; 8] =
    ["What", "Who", "Whether", "Those", "Whoever", "Whatever", "Whose", "Whom"];

#[test]
fn comments_are_no_wider_than_a_page() {
    let complaints = comments(|_, line| {
        let columns = line.chars().count();
        (columns > MOST_COLUMNS).then(|| format!("{columns} columns"))
    });
    complain(&format!("a comment has at most {MOST_COLUMNS} columns"), &complaints);
}

#[test]
fn doc_comments_begin_with_what_a_thing_is() {
    let complaints = comments(|before, line| {
        let text = doc(line)?;
        let is_beginning = doc(before).is_none_or(str::is_empty);
        let first = text.split(|char: char| !char.is_alphabetic()).next()?;
        (is_beginning && POOR_BEGINNINGS.contains(&first)).then(|| format!("begins with `{first}`"))
    });
    complain("a doc comment says what a thing is or does", &complaints);
}

/// The text of a line of a doc comment.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
}

/// Asks of every line that is a comment, and the line before it, what is wrong with it.
fn comments(wrong: impl Fn(&str, &str) -> Option<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for path in files(&["rs"]) {
        let comments = Source::of(&read(&path)).comments;
        let mut before = "";
        for (index, line) in comments.lines().enumerate() {
            let complaint = wrong(before, line).filter(|_| line.trim_start().starts_with("//"));
            complaints.extend(complaint.map(|it| format!("{}:{}: {it}", path.display(), index + 1)));
            before = line;
        }
    }
    complaints
}
