use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::SandboxId;
use crate::text::{checked_text, shorten};

/// The longest that a label of DNS may be.
const LONGEST: usize = 63;
/// Ids of sandboxes and of snapshots begin with these, so no name does.
const RESERVED: [&str; 2] = ["sbx", "snap-"];

/// A sandbox's name, unique among those of its owner: a label of DNS that begins with a letter and
/// cannot be taken for an id, a number or an option.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SandboxName(String);

/// The text is not a name of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a sandbox's name: expected 1 to 63 characters of a-z, 0-9 and inner dashes, the first a letter, and not `sbx` or `snap-` at the beginning"
)]
pub struct SandboxNameError(String);

impl FromStr for SandboxName {
    type Err = SandboxNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let valid = (1..=LONGEST).contains(&text.len())
            && text.bytes().all(known)
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && !text.ends_with('-')
            && !RESERVED.iter().any(|reserved| text.starts_with(reserved));
        if valid { Ok(Self(text.to_owned())) } else { Err(SandboxNameError(shorten(text))) }
    }
}

checked_text!(SandboxName);

/// A word that says which of an owner's sandboxes is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxWord {
    Id(SandboxId),
    /// The beginning of an id, which must be that of one sandbox only.
    Beginning(String),
    Name(SandboxName),
    /// `@last`: the one that was made last and is not removed.
    Last,
    /// `@default`: the one that the owner chose as the default.
    Default,
}

/// The text says nothing about a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no sandbox: expected an id (`sbx…`) or the beginning of one, a name, `@last` or `@default`"
)]
pub struct SandboxWordError(String);

impl SandboxWord {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Id(id) => id.as_str(),
            Self::Beginning(text) => text,
            Self::Name(name) => name.as_str(),
            Self::Last => "@last",
            Self::Default => "@default",
        }
    }
}

impl From<SandboxId> for SandboxWord {
    fn from(id: SandboxId) -> Self {
        Self::Id(id)
    }
}

impl FromStr for SandboxWord {
    type Err = SandboxWordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "@last" => return Ok(Self::Last),
            "@default" => return Ok(Self::Default),
            _ => {}
        }
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        if SandboxId::may_begin_with(text) {
            return Ok(Self::Beginning(text.to_owned()));
        }
        text.parse().map(Self::Name).map_err(|_| SandboxWordError(shorten(text)))
    }
}

impl std::fmt::Display for SandboxWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_a_label_of_dns_that_is_neither_an_id_nor_a_number_nor_an_option() {
        let longest = "a".repeat(63);
        for text in ["a", "web", "web-2", "x--y", "last", "default", "sb", "snapshot", longest.as_str()] {
            assert_eq!(text.parse::<SandboxName>().map(String::from).as_deref(), Ok(text));
        }
        let long = "a".repeat(64);
        for text in [
            "",
            "-",
            "-a",
            "a-",
            "2",
            "2a",
            "A",
            "Web",
            "a_b",
            "a.b",
            "a b",
            "a/b",
            "..",
            "@last",
            "@",
            "sbx",
            "sbxweb",
            "sbx-1",
            "snap-1",
            "ä",
            "а",
            "a\0",
            "a\n",
            "a:b",
            "a%2f",
            "web\u{202e}",
            long.as_str(),
        ] {
            assert!(text.parse::<SandboxName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_record_with_a_wrong_name_is_not_read() {
        assert!(serde_json::from_str::<SandboxName>("\"web\"").is_ok());
        assert!(serde_json::from_str::<SandboxName>("\"Web\"").is_err());
    }

    #[test]
    fn each_word_means_one_thing() {
        let id = SandboxId::from_random([7; 16]);
        assert_eq!(id.as_str().parse(), Ok(SandboxWord::Id(id.clone())));
        let beginning = &id.as_str()[..5];
        assert_eq!(beginning.parse(), Ok(SandboxWord::Beginning(beginning.to_owned())));
        assert_eq!("web".parse(), Ok(SandboxWord::Name("web".parse().unwrap())));
        assert_eq!("@last".parse(), Ok(SandboxWord::Last));
        assert_eq!("@default".parse(), Ok(SandboxWord::Default));
        let too_long = format!("{id}a");
        for text in
            ["", "sbx", "sbx1", "sbxA", "@", "@Last", "@last ", "..", "%", "*", "sbx%", "sbx_", &too_long]
        {
            assert!(text.parse::<SandboxWord>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_word_is_written_as_it_was_read(text in ".{0,70}|sbx[a-z2-7]{0,27}|[a-z0-9-]{0,70}") {
            if let Ok(word) = text.parse::<SandboxWord>() {
                prop_assert_eq!(word.as_str(), text.as_str());
            }
        }

        #[test]
        fn no_name_is_an_id_or_the_beginning_of_one(text in "[a-z0-9-]{1,63}|sbx[a-z2-7-]{0,27}") {
            if text.parse::<SandboxName>().is_ok() {
                let read = text.parse::<SandboxWord>();
                prop_assert!(matches!(read, Ok(SandboxWord::Name(_))), "{:?}", read);
            }
        }
    }
}
