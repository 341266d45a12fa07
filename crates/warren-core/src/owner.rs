use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A tenant: whose a thing is. Part of every query, so that one never sees another's things.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Owner(String);

/// The text is not an owner's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an owner: expected 1 to 63 characters of a-z, 0-9, `-`, `_` and `.`, the first a letter or digit"
)]
pub struct OwnerError(String);

impl Owner {
    /// Whom the first key belongs to.
    pub fn first() -> Self {
        Self("default".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Owner {
    type Err = OwnerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let valid = (1..=63).contains(&text.len())
            && text.bytes().next().is_some_and(word)
            && text.bytes().all(|byte| word(byte) || b"-_.".contains(&byte));
        if valid { Ok(Self(text.to_owned())) } else { Err(OwnerError(crate::id::shorten(text))) }
    }
}

impl TryFrom<String> for Owner {
    type Error = OwnerError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Owner> for String {
    fn from(owner: Owner) -> Self {
        owner.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
