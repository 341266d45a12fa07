use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::{checked_text, is_plain_name, shorten};

const ID_PREFIX: &str = "sbx";
const ID_DIGITS: usize = 26;
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Names one sandbox: `sbx` and 26 base32 digits of 128 random bits. It has no dash, so that
/// `{port}-{id}` is a DNS label, and cannot be guessed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SandboxId(String);

/// The text is not a sandbox id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a sandbox id: expected `sbx` and 26 characters of a-z and 2-7")]
pub struct SandboxIdError(String);

impl SandboxId {
    /// Makes the id of 128 bits that the caller drew at random.
    pub fn from_random(bits: [u8; 16]) -> Self {
        let number = u128::from_be_bytes(bits);
        let mut text = String::with_capacity(ID_PREFIX.len() + ID_DIGITS);
        text.push_str(ID_PREFIX);
        // 26 digits hold 130 bits: the first digit carries only the top three.
        for place in (0..ID_DIGITS).rev() {
            let digit = (number >> (place * 5)) as usize & 31;
            text.push(char::from(BASE32[digit]));
        }
        Self(text)
    }

    /// True for a text that is shorter than an id and may be the beginning of one.
    pub(crate) fn may_begin_with(text: &str) -> bool {
        let digits = text.strip_prefix(ID_PREFIX).unwrap_or_default().as_bytes();
        (1..ID_DIGITS).contains(&digits.len()) && digits.iter().all(|digit| BASE32.contains(digit))
    }
}

impl FromStr for SandboxId {
    type Err = SandboxIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix(ID_PREFIX).unwrap_or_default().as_bytes();
        let valid = digits.len() == ID_DIGITS && digits.iter().all(|digit| BASE32.contains(digit));
        if valid { Ok(Self(text.to_owned())) } else { Err(SandboxIdError(shorten(text))) }
    }
}

checked_text!(SandboxId);

/// Names a template: a directory name and a word on the command line, so the alphabet is narrow.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TemplateName(String);

/// The text is not a template name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a template name: expected 1 to 63 characters of a-z, 0-9, `-`, `_` and `.`, the first a letter or digit"
)]
pub struct TemplateNameError(String);

impl TemplateName {
    /// The built-in template: the machine's own `/usr` below a generated skeleton.
    pub fn host() -> Self {
        Self("host".to_owned())
    }

    pub fn is_host(&self) -> bool {
        self.0 == "host"
    }
}

impl FromStr for TemplateName {
    type Err = TemplateNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_plain_name(text) { Ok(Self(text.to_owned())) } else { Err(TemplateNameError(shorten(text))) }
    }
}

checked_text!(TemplateName);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_is_a_dns_label_of_known_shape() {
        assert_eq!(SandboxId::from_random([0; 16]).as_str(), "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa");
        assert_eq!(SandboxId::from_random([255; 16]).as_str(), "sbxh7777777777777777777777777");
    }

    #[test]
    fn wrong_ids_are_refused() {
        let upper = "sbxAAAAAAAAAAAAAAAAAAAAAAAAAA";
        for text in
            ["", "sbx", "sbxa", upper, "sbx/../../../../etc/passwd.....", "box77777777777777777777777777"]
        {
            assert!(text.parse::<SandboxId>().is_err(), "{text}");
        }
    }

    #[test]
    fn wrong_template_names_are_refused() {
        let long = "a".repeat(64);
        for text in ["", ".", "..", "-a", "_a", ".a", "A", "a/b", "a b", "ä", long.as_str()] {
            assert!(text.parse::<TemplateName>().is_err(), "{text}");
        }
        for text in ["a", "host", "python-3.12", "0_x"] {
            assert!(text.parse::<TemplateName>().is_ok(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn ids_round_trip_and_differ(a: [u8; 16], b: [u8; 16]) {
            let (x, y) = (SandboxId::from_random(a), SandboxId::from_random(b));
            prop_assert_eq!(x.as_str().parse::<SandboxId>(), Ok(x.clone()));
            prop_assert_eq!(a == b, x == y);
        }
    }
}
