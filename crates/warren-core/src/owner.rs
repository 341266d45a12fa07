use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::{checked_text, is_plain_name, shorten};

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
    /// The owner of the first key.
    pub fn first() -> Self {
        Self("default".to_owned())
    }
}

impl FromStr for Owner {
    type Err = OwnerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_plain_name(text) { Ok(Self(text.to_owned())) } else { Err(OwnerError(shorten(text))) }
    }
}

checked_text!(Owner);
