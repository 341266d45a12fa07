use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::rule::{NetworkRule, Target};
use crate::field::Field;
use crate::text::checked_text;

/// The name of a secret: 1 to 64 letters, digits, `-` and `_`, beginning with a letter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretName(String);

/// The public part of a secret: everything but its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretRecord {
    pub name: SecretName,
    /// Where it may go: names, with or without ports, never networks.
    pub hosts: Vec<NetworkRule>,
    pub injection: Injection,
    pub created_unix_ms: u64,
    pub changed_unix_ms: u64,
}

/// A secret with its value.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    pub record: SecretRecord,
    pub value: String,
}

/// How a secret gets into a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case", deny_unknown_fields)]
pub enum Injection {
    /// The header is set, whatever the client sent in it; `{}` in the template is the value.
    Header { header: String, template: String },
    /// This text, wherever it stands in a header's value, is replaced. It is what programs in the
    /// sandbox are given.
    Placeholder { placeholder: String },
    /// These headers are set, whatever the client sent in them. The value has theirs, a line for
    /// each in this order. Of several secrets of this kind for one host the one counts that names
    /// it most closely. Nobody calls such a secret by its name: it is there for as long as policies
    /// are that name it.
    Transform { headers: Vec<String> },
}

/// A secret that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("name: 1 to 64 letters, digits, `-` and `_`, beginning with a letter")]
    Name,
    #[error("hosts: at least one host and 32 at most")]
    Hosts,
    #[error("hosts: `{rule}` does not name hosts of one domain, and a secret goes nowhere else")]
    NotAName { rule: NetworkRule },
    #[error("value: 1 to 16384 printable ASCII characters, with no spaces at the ends")]
    Value,
    #[error("header: `{header}` is not the name of a header that may be set")]
    Header { header: String },
    #[error("template: printable ASCII with `{{}}` where the value goes, 256 characters at most")]
    Template,
    #[error("placeholder: 8 to 128 letters, digits, `-`, `_` and `.`")]
    Placeholder,
    #[error("headers: at least one and 20 at most, each of them once")]
    Headers,
    #[error(
        "headers: the value of `{header}` is not at most 2048 printable ASCII characters with no spaces at the ends"
    )]
    HeaderValue { header: String },
}

impl SecretError {
    /// The part of the secret that is wrong.
    pub fn field(&self) -> Field {
        match self {
            Self::Name => Field::SecretName,
            Self::Hosts | Self::NotAName { .. } => Field::SecretHosts,
            Self::Value => Field::SecretValue,
            Self::Header { .. } => Field::SecretHeader,
            Self::Template => Field::SecretTemplate,
            Self::Placeholder => Field::SecretPlaceholder,
            Self::Headers | Self::HeaderValue { .. } => Field::SecretHeaders,
        }
    }
}

/// Headers that say how a message is to be read, or where it goes.
const NOT_OURS_TO_SET: [&str; 12] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "keep-alive",
    "expect",
    "proxy-authorization",
    "proxy-connection",
    "accept-encoding",
];

impl SecretRecord {
    /// True if it is removed when no policy names it any more.
    pub fn is_nameless(&self) -> bool {
        matches!(self.injection, Injection::Transform { .. })
    }

    pub fn validate(&self) -> Result<(), SecretError> {
        if !(1..=32).contains(&self.hosts.len()) {
            return Err(SecretError::Hosts);
        }
        if let Some(rule) = self.hosts.iter().find(|rule| !is_narrow(rule)) {
            return Err(SecretError::NotAName { rule: rule.clone() });
        }
        self.injection.validate()
    }
}

/// A name, or the names below one that is somebody's: everything below `example` alone is nobody's.
fn is_narrow(rule: &NetworkRule) -> bool {
    match &rule.target {
        Target::Name(_) => true,
        Target::Below(parent) => parent.as_str().contains('.'),
        Target::Network(_) | Target::Any => false,
    }
}

impl Secret {
    pub fn validate(&self) -> Result<(), SecretError> {
        self.record.validate()?;
        let Injection::Transform { headers } = &self.record.injection else {
            let whole = (1..=16_384).contains(&self.value.len()) && is_plain(&self.value);
            return if whole { Ok(()) } else { Err(SecretError::Value) };
        };
        let values: Vec<&str> = self.value.split('\n').collect();
        if values.len() != headers.len() {
            return Err(SecretError::Value);
        }
        match headers.iter().zip(&values).find(|(_, value)| value.len() > 2048 || !is_plain(value)) {
            Some((header, _)) => Err(SecretError::HeaderValue { header: header.clone() }),
            None => Ok(()),
        }
    }
}

fn is_plain(value: &str) -> bool {
    value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && value.trim() == value
}

impl Injection {
    fn validate(&self) -> Result<(), SecretError> {
        match self {
            Self::Header { header, template } => {
                check_header(header)?;
                let printable = template.bytes().all(|byte| (b' '..=b'~').contains(&byte));
                if printable && template.len() <= 256 && template.matches("{}").count() == 1 {
                    Ok(())
                } else {
                    Err(SecretError::Template)
                }
            }
            Self::Placeholder { placeholder } => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                if (8..=128).contains(&placeholder.len()) && placeholder.bytes().all(plain) {
                    Ok(())
                } else {
                    Err(SecretError::Placeholder)
                }
            }
            Self::Transform { headers } => {
                let twice = |(index, header): (usize, &String)| {
                    headers[..index].iter().any(|other| other.eq_ignore_ascii_case(header))
                };
                if !(1..=20).contains(&headers.len()) || headers.iter().enumerate().any(twice) {
                    return Err(SecretError::Headers);
                }
                headers.iter().try_for_each(|header| check_header(header))
            }
        }
    }
}

fn check_header(header: &str) -> Result<(), SecretError> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let valid = (1..=64).contains(&header.len()) && header.bytes().all(token);
    if valid && !NOT_OURS_TO_SET.contains(&header.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    Err(SecretError::Header { header: header.escape_default().take(80).collect() })
}

impl FromStr for SecretName {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        let letter = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
        if plain && letter && text.len() <= 64 { Ok(Self(text.to_owned())) } else { Err(SecretError::Name) }
    }
}

checked_text!(SecretName);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("record", &self.record).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(hosts: &[&str], injection: Injection) -> SecretRecord {
        SecretRecord {
            name: "token".parse().unwrap(),
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            injection,
            created_unix_ms: 0,
            changed_unix_ms: 0,
        }
    }

    fn header(header: &str, template: &str) -> Injection {
        Injection::Header { header: header.to_owned(), template: template.to_owned() }
    }

    fn wrong(record: &SecretRecord) -> Option<Field> {
        record.validate().err().map(|error| error.field())
    }

    #[test]
    fn names_are_words() {
        for name in ["a", "A-b_9", &"x".repeat(64)] {
            name.parse::<SecretName>().unwrap();
        }
        for name in ["", "9a", "-a", "a b", "a/b", "a.b", "ä", &"x".repeat(65)] {
            name.parse::<SecretName>().unwrap_err();
        }
    }

    #[test]
    fn hosts_are_somebodys_names() {
        let bearer = || header("Authorization", "Bearer {}");
        assert_eq!(wrong(&record(&["api.example", "*.b.example", "c.example:443"], bearer())), None);
        for host in ["*", "*:443", "*.example", "192.0.2.0/24", "192.0.2.1", "2001:db8::/32"] {
            assert_eq!(wrong(&record(&["api.example", host], bearer())), Some(Field::SecretHosts), "{host}");
        }
        assert_eq!(wrong(&record(&[], bearer())), Some(Field::SecretHosts));
        assert_eq!(wrong(&record(&["a.example"; 33], bearer())), Some(Field::SecretHosts));
    }

    #[test]
    fn a_header_that_says_how_to_read_the_message_is_not_set() {
        let with = |name: &str| wrong(&record(&["api.example"], header(name, "{}")));
        assert_eq!(with("X-Api-Key"), None);
        for name in ["Host", "content-length", "Transfer-Encoding", "", "a b", "a:b", "a\r\nb", "Connection"]
        {
            assert_eq!(with(name), Some(Field::SecretHeader), "{name}");
        }
        for template in ["", "Bearer", "{}{}", "a\n{}", "ä{}"] {
            let record = record(&["api.example"], header("x-key", template));
            assert_eq!(wrong(&record), Some(Field::SecretTemplate), "{template}");
        }
        for placeholder in ["short", "has space", "with{}brace"] {
            let placeholder = Injection::Placeholder { placeholder: placeholder.to_owned() };
            assert_eq!(wrong(&record(&["api.example"], placeholder)), Some(Field::SecretPlaceholder));
        }
    }

    #[test]
    fn a_transform_has_a_value_for_each_of_its_headers() {
        let transform = |headers: &[&str], value: &str| {
            let headers = headers.iter().map(ToString::to_string).collect();
            let record = record(&["api.example"], Injection::Transform { headers });
            Secret { record, value: value.to_owned() }.validate().map_err(|error| error.field())
        };
        assert_eq!(transform(&["X-A", "x-b"], "1\n"), Ok(()));
        for value in ["1", "1\n2\n3", ""] {
            assert_eq!(transform(&["X-A", "x-b"], value), Err(Field::SecretValue), "{value}");
        }
        for value in ["a\rb", " a", "ä", &"x".repeat(2049)] {
            assert_eq!(transform(&["X-A"], value), Err(Field::SecretHeaders), "{value}");
        }
        assert_eq!(transform(&["X-A", "x-a"], "1\n2"), Err(Field::SecretHeaders));
        assert_eq!(transform(&[], ""), Err(Field::SecretHeaders));
        assert_eq!(transform(&["Host"], "a"), Err(Field::SecretHeader));
    }

    #[test]
    fn a_value_is_printable_and_never_printed() {
        let secret = |value: &str| Secret {
            record: record(&["api.example"], header("x-key", "{}")),
            value: value.to_owned(),
        };
        secret("s p~!").validate().unwrap();
        for value in ["", " a", "a ", "a\nb", "a\0", "ä", &"x".repeat(16_385)] {
            assert_eq!(secret(value).validate(), Err(SecretError::Value), "{value}");
        }
        assert!(!format!("{:?}", secret("tell-nobody")).contains("tell-nobody"));
    }
}
