use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const MAX_LENGTH: usize = 63;
const HOST: &str = "host";

/// Names a template, and its directory in the store: 1 to 63 characters of `a-z`, `0-9`, `-`, `_` and `.`, the first
/// a letter or digit. So a name is never a path, never hidden and never an option.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TemplateName(String);

/// The text is not a template name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a template name: use 1 to 63 characters of a-z, 0-9, `-`, `_` and `.`, the first a letter or digit",
    .0.escape_debug().take(80).collect::<String>()
)]
pub struct TemplateNameError(String);

impl TemplateName {
    /// The built-in template: the machine's own `/usr` and a generated rest.
    pub fn host() -> Self {
        Self(HOST.to_owned())
    }

    /// Whether this is the built-in template, which is neither imported nor removed.
    pub fn is_host(&self) -> bool {
        self.0 == HOST
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TemplateName {
    type Err = TemplateNameError;

    fn from_str(text: &str) -> Result<Self, TemplateNameError> {
        Self::try_from(text.to_owned())
    }
}

impl TryFrom<String> for TemplateName {
    type Error = TemplateNameError;

    fn try_from(text: String) -> Result<Self, TemplateNameError> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let starts_well = text.bytes().next().is_some_and(plain);
        let allowed = text.bytes().all(|byte| plain(byte) || b"-_.".contains(&byte));
        if starts_well && allowed && text.len() <= MAX_LENGTH {
            Ok(Self(text))
        } else {
            Err(TemplateNameError(text))
        }
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
        write!(f, "TemplateName({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn accepts_names_and_refuses_paths() {
        for good in ["host", "a", "0", "debian-12.5_slim", &"x".repeat(63)] {
            assert_eq!(good.parse::<TemplateName>().map(String::from), Ok(good.to_owned()));
        }
        for bad in ["", ".", "..", "-a", "_a", ".a", "A", "a/b", "a b", "a\0", "é", &"x".repeat(64)] {
            assert!(bad.parse::<TemplateName>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn a_name_is_always_one_plain_path_component(text in ".{0,70}") {
            if let Ok(name) = text.parse::<TemplateName>() {
                let path = std::path::Path::new("/store").join(name.as_str());
                prop_assert_eq!(path.components().count(), 3);
                prop_assert_eq!(path.parent(), Some(std::path::Path::new("/store")));
                prop_assert!(!name.as_str().starts_with('.'));
            }
        }

        #[test]
        fn every_name_of_the_alphabet_is_accepted(text in "[a-z0-9][a-z0-9._-]{0,62}") {
            prop_assert!(text.parse::<TemplateName>().is_ok());
        }
    }
}
