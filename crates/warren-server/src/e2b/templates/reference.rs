//! How templates are called: `name`, `owner/name`, an id, and any of them with `:tag`.

use crate::e2b::control::E2bError;

/// The tag of what has none.
pub(super) const DEFAULT_TAG: &str = "default";

/// Letters of a name, a tag or an owner.
const LONGEST: usize = 128;

/// What a client calls a template, taken apart. Upper case counts as lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// Whose it is, if that is said.
    pub(super) owner: Option<String>,
    /// A name or an id.
    pub(super) name: String,
    pub(super) tag: Option<String>,
}

impl Reference {
    pub(super) fn parse(text: &str) -> Result<Self, E2bError> {
        let lower = text.trim().to_ascii_lowercase();
        let (path, tag) = match lower.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (lower.as_str(), None),
        };
        let (owner, name) = match path.split_once('/') {
            Some((owner, name)) => (Some(owner), name),
            None => (None, path),
        };
        let fits = owner.is_none_or(is_word) && is_word(name) && tag.is_none_or(is_word);
        if !fits {
            let short: String = text.chars().take(80).flat_map(char::escape_default).collect();
            let message = format!(
                "`{short}` is no template: write `name`, `name:tag`, `owner/name:tag` or an id, of letters, digits, `-`, `_` and `.`"
            );
            return Err(E2bError::bad_request(message));
        }
        Ok(Self { owner: owner.map(str::to_owned), name: name.to_owned(), tag: tag.map(str::to_owned) })
    }

    pub(super) fn tag_or_default(&self) -> &str {
        self.tag.as_deref().unwrap_or(DEFAULT_TAG)
    }
}

fn is_word(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    first
        && text.len() <= LONGEST
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// A name that a template may be given, with its owner left out and its tag apart. Templates of the server have names with
/// dots; those that clients build do not.
pub(super) fn new_name(text: &str, owner: &str) -> Result<Reference, E2bError> {
    let reference = Reference::parse(text)?;
    if reference.owner.as_deref().is_some_and(|named| named != owner) {
        let message =
            format!("`{text}` is not yours to name: leave out what is before the `/`, or write `{owner}`");
        return Err(E2bError::bad_request(message));
    }
    if reference.name.contains('.') {
        let message =
            format!("`{}` has a dot: a template's name has letters, digits, `-` and `_`", reference.name);
        return Err(E2bError::bad_request(message));
    }
    reference.tag.as_deref().map_or(Ok(()), check_tag)?;
    Ok(Reference { owner: None, ..reference })
}

/// Whether something may be called by this tag. One that looks like a build's id would hide that build.
pub(super) fn check_tag(tag: &str) -> Result<(), E2bError> {
    let lower = tag == tag.to_ascii_lowercase();
    if lower && is_word(tag) && !is_uuid(tag) {
        return Ok(());
    }
    let short: String = tag.chars().take(80).flat_map(char::escape_default).collect();
    let message = format!(
        "`{short}` is no tag: it has 1 to {LONGEST} of a-z, 0-9, `-`, `_` and `.`, begins with none of the signs, and is no UUID"
    );
    Err(E2bError::bad_request(message))
}

/// Whether it has the form of a build's id.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// A build's id of 128 bits that were drawn at random.
pub(super) fn build_id(bits: [u8; 16]) -> String {
    // Version 4, variant 1, as everybody expects of one that was drawn.
    let number = u128::from_be_bytes(bits) & !(0xf << 76) | (4 << 76);
    let number = number & !(0b11 << 62) | (0b10 << 62);
    let digits = format!("{number:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// A template's id of 128 bits that were drawn at random: 20 letters and digits.
pub(super) fn template_id(bits: [u8; 16]) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let number = u128::from_be_bytes(bits);
    (0..20).map(|place| char::from(DIGITS[(number >> (place * 5)) as usize & 31])).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> (Option<String>, String, Option<String>) {
        let Reference { owner, name, tag } = Reference::parse(text).unwrap();
        (owner, name, tag)
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
            assert!(Reference::parse(wrong).is_err() || wrong.trim() == "a", "{wrong:?}");
        }
    }

    #[test]
    fn only_ones_own_names_are_given() {
        assert_eq!(new_name("me/app:v1", "me").unwrap().tag.as_deref(), Some("v1"));
        assert!(new_name("you/app", "me").is_err());
        assert!(new_name("python3.12", "me").is_err());
    }

    #[test]
    fn tags_are_words_and_no_ids_of_builds() {
        for tag in ["v1", "default", "1.2.3-rc_1", "latest"] {
            assert!(check_tag(tag).is_ok(), "{tag}");
        }
        let id = build_id([7; 16]);
        for tag in ["", ":v1", "v1:", "V1", "a b", "a/b", id.as_str()] {
            assert!(check_tag(tag).is_err(), "{tag}");
        }
    }

    #[test]
    fn ids_have_the_forms_that_clients_know() {
        assert_eq!(build_id([0; 16]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(build_id([255; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(template_id([0; 16]), "a".repeat(20));
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text: String, bits: [u8; 16]) {
            drop((Reference::parse(&text), new_name(&text, "me"), check_tag(&text)));
            prop_assert!(is_uuid(&build_id(bits)));
            prop_assert!(Reference::parse(&template_id(bits)).is_ok());
        }
    }
}
