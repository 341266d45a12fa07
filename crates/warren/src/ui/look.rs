//! The looks of what is written: colours, and how wide a line may be.

use std::ffi::OsString;
use std::io::{self, IsTerminal};

use rustix::fd::AsFd;

/// How a text is to stand out, where it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Bold,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Colour {
    /// The text in this colour.
    pub(super) fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Bold => "1",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Cyan => "36",
        };
        format!("\x1b[{code}m{text}\x1b[m")
    }
}

/// Tells whether a stream may be written to in colour: if it is a terminal that can, or if that is
/// asked for, unless nobody wants colours.
pub(super) fn has_colour(stream: &impl IsTerminal) -> bool {
    colour_wanted(stream.is_terminal(), &|name| std::env::var_os(name))
}

fn colour_wanted(on_terminal: bool, variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    if is_set("NO_COLOR") {
        return false;
    }
    let forced = variable("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
    forced || on_terminal && variable("TERM").is_none_or(|term| term != "dumb")
}

/// The columns of a terminal; `None` where lines may have any length.
pub(super) fn width(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// A text in colour on standard output, where it can be.
pub(super) fn coloured(text: &str, colour: Option<Colour>) -> String {
    match colour.filter(|_| has_colour(&io::stdout())) {
        Some(colour) => colour.paint(text),
        None => text.to_owned(),
    }
}

/// The beginning of a text that is longer than this, and a mark.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        let wanted = |on_terminal, set: &[(&str, &str)]| {
            colour_wanted(on_terminal, &|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            })
        };
        assert!(wanted(true, &[("TERM", "xterm")]) && !wanted(false, &[("TERM", "xterm")]));
        assert!(!wanted(true, &[("NO_COLOR", "1")]) && wanted(true, &[("NO_COLOR", "")]));
        assert!(!wanted(true, &[("TERM", "dumb")]));
        assert!(wanted(false, &[("CLICOLOR_FORCE", "1")]) && !wanted(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!wanted(false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    }

    #[test]
    fn a_long_text_is_cut_and_marked() {
        assert_eq!([cut("abc", 3), cut("abcd", 3), cut("äöüß", 3)], ["abc", "ab…", "äö…"]);
    }
}
