//! Names of images: `name`, `owner/name`, an id, and any of them with `:tag`.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::owner::Owner;
use crate::text::{checked_text, shorten};
use crate::unique::BuildId;

/// The tag of a reference that has none.
pub const DEFAULT_TAG: &str = "default";

/// The most letters of a name, a tag or an owner.
const LONGEST: usize = 128;

/// Names one image of an owner, whatever name people gave it. New ones have 20 letters and digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageId(String);

/// A name or an id of an image, taken apart. Upper case counts as lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRef {
    /// The owner of the image, if the text says so.
    pub owner: Option<String>,
    /// A name or an id.
    pub name: String,
    pub tag: Option<String>,
}

/// The text cannot name an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageRefError {
    #[error(
        "`{text}` is no image: write `name`, `name:tag`, `owner/name:tag` or an id, of letters, digits, `-`, `_` and `.`"
    )]
    Form { text: String },
    #[error("`{text}` is not yours to name: leave out what is before the `/`, or write `{owner}`")]
    Owner { text: String, owner: Owner },
    /// Templates of the machine may have dots in their names, images of owners may not.
    #[error("`{name}` has a dot: an image's name has letters, digits, `-` and `_`")]
    Dot { name: String },
    #[error(
        "`{text}` is no tag: it has 1 to 128 of a-z, 0-9, `-`, `_` and `.`, begins with none of the signs, and is no UUID"
    )]
    Tag { text: String },
}

impl ImageId {
    /// Makes the id of 128 bits that the caller drew at random.
    pub fn from_random(bits: [u8; 16]) -> Self {
        const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let number = u128::from_be_bytes(bits);
        Self((0..20).map(|place| char::from(DIGITS[(number >> (place * 5)) as usize & 31])).collect())
    }
}

impl FromStr for ImageId {
    type Err = ImageRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_word(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ImageRefError::Form { text: shorten(text) })
        }
    }
}

checked_text!(ImageId);

impl ImageRef {
    /// The name that an owner gives to an image, without the owner. Only one's own can be named.
    pub fn new_name(text: &str, owner: &Owner) -> Result<Self, ImageRefError> {
        let reference: Self = text.parse()?;
        if !reference.may_be_of(owner) {
            return Err(ImageRefError::Owner { text: shorten(text), owner: owner.clone() });
        }
        if reference.name.contains('.') {
            return Err(ImageRefError::Dot { name: reference.name });
        }
        reference.tag.as_deref().map_or(Ok(()), check_tag)?;
        Ok(Self { owner: None, ..reference })
    }

    /// True unless it names another owner.
    pub fn may_be_of(&self, owner: &Owner) -> bool {
        self.owner.as_deref().is_none_or(|named| named == owner.as_str())
    }

    pub fn tag_or_default(&self) -> &str {
        self.tag.as_deref().unwrap_or(DEFAULT_TAG)
    }
}

impl FromStr for ImageRef {
    type Err = ImageRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.trim().to_ascii_lowercase();
        let (path, tag) = match lower.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (lower.as_str(), None),
        };
        let (owner, name) = match path.split_once('/') {
            Some((owner, name)) => (Some(owner), name),
            None => (None, path),
        };
        if !(owner.is_none_or(is_word) && is_word(name) && tag.is_none_or(is_word)) {
            return Err(ImageRefError::Form { text: shorten(text) });
        }
        Ok(Self { owner: owner.map(str::to_owned), name: name.to_owned(), tag: tag.map(str::to_owned) })
    }
}

/// Checks that a build may have this tag. One that looks like a build's id would hide that build.
pub fn check_tag(tag: &str) -> Result<(), ImageRefError> {
    let lower = tag == tag.to_ascii_lowercase();
    if lower && is_word(tag) && tag.parse::<BuildId>().is_err() {
        return Ok(());
    }
    Err(ImageRefError::Tag { text: shorten(tag) })
}

fn is_word(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    first
        && text.len() <= LONGEST
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> (Option<String>, String, Option<String>) {
        let ImageRef { owner, name, tag } = text.parse().unwrap();
        (owner, name, tag)
    }

    fn me() -> Owner {
        "me".parse().unwrap()
    }

    #[test]
    fn references_are_taken_apart() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parsed("base"), (None, "base".to_owned(), None));
        assert_eq!(parsed("Team/My-App:V1.2"), (some("team"), "my-app".to_owned(), some("v1.2")));
        assert_eq!(parsed("x:default"), (None, "x".to_owned(), some("default")));
        for wrong in [
            "", " ", ":", "a:", ":a", "a/", "/a", "a/b/c", "a:b:c", "a b", "../x", "a/../b", "ä", "-a", "a\n",
        ] {
            assert!(wrong.parse::<ImageRef>().is_err() || wrong.trim() == "a", "{wrong:?}");
        }
    }

    #[test]
    fn only_ones_own_names_are_given() {
        assert_eq!(ImageRef::new_name("me/app:v1", &me()).unwrap().tag.as_deref(), Some("v1"));
        assert!(ImageRef::new_name("you/app", &me()).is_err());
        assert!(ImageRef::new_name("python3.12", &me()).is_err());
    }

    #[test]
    fn tags_are_words_and_no_ids_of_builds() {
        for tag in ["v1", "default", "1.2.3-rc_1", "latest"] {
            assert!(check_tag(tag).is_ok(), "{tag}");
        }
        let id = BuildId::from_random([7; 16]);
        for tag in ["", ":v1", "v1:", "V1", "a b", "a/b", id.as_str()] {
            assert!(check_tag(tag).is_err(), "{tag}");
        }
    }

    #[test]
    fn ids_have_the_forms_that_clients_know() {
        assert_eq!(BuildId::from_random([0; 16]).as_str(), "00000000-0000-4000-8000-000000000000");
        assert_eq!(ImageId::from_random([0; 16]).as_str(), "a".repeat(20));
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text: String, bits: [u8; 16]) {
            drop((text.parse::<ImageRef>(), ImageRef::new_name(&text, &me()), check_tag(&text)));
            prop_assert!(ImageId::from_random(bits).as_str().parse::<ImageRef>().is_ok());
        }
    }
}
