use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

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

    pub fn as_str(&self) -> &str {
        &self.0
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

impl TryFrom<String> for SandboxId {
    type Error = SandboxIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<SandboxId> for String {
    fn from(id: SandboxId) -> Self {
        id.0
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TemplateName {
    type Err = TemplateNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let valid = (1..=63).contains(&text.len())
            && text.bytes().next().is_some_and(word)
            && text.bytes().all(|byte| word(byte) || b"-_.".contains(&byte));
        if valid { Ok(Self(text.to_owned())) } else { Err(TemplateNameError(shorten(text))) }
    }
}

impl TryFrom<String> for TemplateName {
    type Error = TemplateNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TemplateName> for String {
    fn from(name: TemplateName) -> Self {
        name.0
    }
}

impl fmt::Display for TemplateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TemplateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an error repeats of a wrong text: enough to recognise it, never a megabyte.
pub(crate) fn shorten(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_default).collect()
}

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
