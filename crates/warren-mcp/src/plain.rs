//! Output of programs as plain text: nothing of it may act on the terminal in which a client shows
//! it.

use std::iter::Peekable;
use std::str::Chars;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';

/// The text without sequences for terminals and without control characters, but for line breaks and
/// tabs. What a program wrote over in the same line is shown as lines.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            ESCAPE => skip_sequence(&mut rest),
            '\u{9b}' => skip_parameters(&mut rest),
            '\u{90}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut rest),
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => shown.push('\n'),
            '\n' | '\t' => shown.push(char),
            char if char.is_control() => {}
            char => shown.push(char),
        }
    }
    shown
}

/// The last line that says something, cut.
pub(crate) fn last_line(text: &str, most: usize) -> String {
    let shown = plain(text);
    let line = shown.lines().rev().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default().chars().take(most).collect()
}

/// Skips the rest of a sequence, after its escape character.
fn skip_sequence(rest: &mut Peekable<Chars<'_>>) {
    match rest.next() {
        Some('[') => skip_parameters(rest),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(rest),
        // A character set: one more character names it.
        Some(' '..='/') => drop(rest.next()),
        _ => {}
    }
}

/// Parameters up to the character that ends them.
fn skip_parameters(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|char| matches!(char, ' '..='?')).is_some() {}
    rest.next_if(|char| matches!(char, '@'..='~'));
}

/// A string up to its terminator, which may be missing.
fn skip_string(rest: &mut Peekable<Chars<'_>>) {
    while let Some(char) = rest.next_if(|char| *char != '\n') {
        match char {
            BELL | '\u{9c}' => return,
            ESCAPE => {
                rest.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn colours_titles_and_links_are_left_out() {
        for (text, shown) in [
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://evil\u{1b}\\click\u{1b}]8;;\u{1b}\\", "click"),
            ("\u{1b}(Bplain\u{1b}=", "plain"),
            ("\u{9b}2Jx\u{90}q\u{9c}y", "xy"),
            ("a\u{8}\u{0}b\tc\r\nd", "ab\tc\nd"),
            ("10%\r20%\n", "10%\n20%\n"),
            ("\u{1b}]never ends\nnext", "\nnext"),
            ("größer €😀", "größer €😀"),
        ] {
            assert_eq!(plain(text), shown, "{text:?}");
        }
    }

    #[test]
    fn the_last_line_is_one_that_says_something() {
        assert_eq!(last_line("a\n\u{1b}[2Kcompiling x\n\n", 80), "compiling x");
        assert_eq!(last_line("ä".repeat(300).as_str(), 10), "ä".repeat(10));
        assert_eq!(last_line("\n \n", 10), "");
    }

    proptest! {
        #[test]
        fn nothing_is_left_that_acts(text in "[\u{0}-\u{a0}]{0,80}") {
            let shown = plain(&text);
            let harmless = |char: char| !char.is_control() || char == '\n' || char == '\t';
            prop_assert!(shown.chars().all(harmless), "{:?}", shown);
        }
    }
}
