//! Images as roots: file systems that a backend keeps itself, such as those of a container engine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::{checked_text, shorten};

/// The most letters of a name.
const LONGEST: usize = 255;

/// The name of an image, as its backend understands it: `python:3.12`, `debian/12`, a digest.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RootImageName(String);

/// An image of a backend, as a root to start on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootImage {
    pub name: RootImageName,
    /// The content that the name meant when the sandbox was made, in the backend's own words: names
    /// are given to other content. Absent in a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The text cannot name an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no image: write a name as its backend has it, of letters, digits and any of `._/:@+-`, {LONGEST} characters at most"
)]
pub struct RootImageNameError(String);

impl From<RootImageName> for RootImage {
    fn from(name: RootImageName) -> Self {
        Self { name, digest: None }
    }
}

impl fmt::Display for RootImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

impl FromStr for RootImageName {
    type Err = RootImageNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._/:@+-".contains(&byte);
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        let parts = text.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        if begins && parts && text.len() <= LONGEST && text.bytes().all(known) {
            Ok(Self(text.to_owned()))
        } else {
            Err(RootImageNameError(shorten(text)))
        }
    }
}

checked_text!(RootImageName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_engines_are_names_and_paths_are_not() {
        for good in ["busybox", "python:3.12", "registry.example:5000/a/b:v1.2_x", "debian/12", "a@sha256:0f"]
        {
            assert_eq!(good.parse::<RootImageName>().unwrap().as_str(), good);
        }
        let long = "a".repeat(LONGEST + 1);
        for bad in ["", "/etc", "../x", "a/../b", "a//b", "-v", "a b", "a\nb", "é", "a?b", "a/", &long] {
            assert!(bad.parse::<RootImageName>().is_err(), "{bad}");
        }
    }
}
