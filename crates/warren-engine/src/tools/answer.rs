use warren_core::Outcome;

use super::ContentBlock;
use crate::EngineError;
use crate::processes::{Collector, Output};

/// The outcome of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) content: Vec<ContentBlock>,
    pub(super) exit_code: Option<i32>,
    pub(super) is_error: bool,
}

impl Answer {
    /// Text of any length: what is beyond `most` bytes is cut out of the middle.
    pub(super) fn text(text: &str, most: usize) -> Self {
        let mut kept = Collector::new(most);
        kept.push(text.as_bytes());
        Self { content: vec![cut(&kept.finish())], ..Self::default() }
    }

    /// Text that the tool itself has kept short.
    pub(super) fn short(text: String, truncated: bool) -> Self {
        Self { content: vec![ContentBlock::Text { text, truncated }], ..Self::default() }
    }

    pub(super) fn failure(why: String) -> Self {
        Self { is_error: true, ..Self::short(why, false) }
    }
}

impl Answer {
    /// The outcome for the journal.
    pub(super) fn outcome(&self) -> Outcome {
        let told = self.content.first().filter(|_| self.is_error && self.exit_code.is_none());
        let detail = told.and_then(|block| match block {
            ContentBlock::Text { text, .. } => Some(crate::shown::cut(text)),
            ContentBlock::Image { .. } => None,
        });
        Outcome { exit_code: self.exit_code, detail }
    }
}

/// Why a tool did not do what it was asked to.
#[derive(Debug)]
pub(super) enum ToolError {
    /// For the caller: it is the answer.
    Told(String),
    /// The call itself failed.
    Engine(EngineError),
}

impl ToolError {
    pub(super) fn told(why: impl Into<String>) -> Self {
        Self::Told(why.into())
    }
}

impl From<EngineError> for ToolError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(failure) => Self::Told(failure.message),
            error => Self::Engine(error),
        }
    }
}

/// The kept part of a text, with a line in place of the rest.
pub(super) fn cut(output: &Output) -> ContentBlock {
    let (text, truncated) = output.text();
    ContentBlock::Text { text, truncated }
}

/// Turns bytes that arrive in pieces into text. A character that arrives in two pieces is one.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The beginning of a character, at most three bytes.
    begun: Vec<u8>,
}

impl Decoder {
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let rest = match std::str::from_utf8(&all) {
            Ok(_) => all.len(),
            // What is wrong before the end stays where it is, and is shown as such.
            Err(_) => begun_at(&all),
        };
        self.begun = all.split_off(rest);
        String::from_utf8(all).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// The bytes that never became a character.
    pub(super) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned()
    }
}

/// Where a character begins that these bytes do not finish; their length if there is none.
fn begun_at(bytes: &[u8]) -> usize {
    let near = bytes.len().saturating_sub(3);
    for at in near..bytes.len() {
        if let Err(error) = std::str::from_utf8(&bytes[at..])
            && error.valid_up_to() == 0
            && error.error_len().is_none()
        {
            return at;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text_of(answer: &Answer) -> (&str, bool) {
        match &answer.content[..] {
            [ContentBlock::Text { text, truncated }] => (text, *truncated),
            other => panic!("not one text: {other:?}"),
        }
    }

    #[test]
    fn what_is_too_long_loses_its_middle_and_says_how_much() {
        let answer = Answer::text(&format!("first{}last", "x".repeat(1000)), 20);
        let (text, truncated) = text_of(&answer);
        assert_eq!(text, "firstxxxxx\n[… 989 bytes left out …]\nxxxxxxlast");
        assert!(truncated);
    }

    #[test]
    fn what_fits_is_left_alone() {
        assert_eq!(text_of(&Answer::text("all of it", 9)), ("all of it", false));
    }

    proptest! {
        #[test]
        fn no_character_is_broken_by_a_cut(text in "[aä€🐇]{0,60}", most in 0usize..80) {
            let answer = Answer::text(&text, most);
            let (shown, truncated) = text_of(&answer);
            prop_assert!(!shown.contains('\u{fffd}'), "{shown}");
            prop_assert_eq!(truncated, text.len() > most);
            if truncated {
                let (head, rest) = shown.split_once("[… ").unwrap();
                let (missing, tail) = rest.split_once(" bytes left out …]\n").unwrap();
                let head = head.strip_suffix('\n').unwrap_or(head);
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                prop_assert_eq!(head.len() + tail.len() + missing.parse::<usize>().unwrap(), text.len());
            }
        }

        #[test]
        fn text_is_the_same_however_it_is_cut(text in "[aä€🐇]{0,40}", pieces in 1usize..7) {
            let mut decoder = Decoder::default();
            let mut shown: String = text.as_bytes().chunks(pieces).map(|piece| decoder.push(piece)).collect();
            shown.push_str(&decoder.finish());
            prop_assert_eq!(shown, text);
        }

        #[test]
        fn noise_is_shown_and_never_held_back(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut decoder = Decoder::default();
            let mut shown = decoder.push(&bytes);
            prop_assert!(decoder.begun.len() < 4);
            shown.push_str(&decoder.finish());
            prop_assert_eq!(shown, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}
