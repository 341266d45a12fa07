//! How secrets get into a request's headers, and out of an answer's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use warren_core::HostName;
use warren_core::network::{Injection, Secret, Target};

use super::scrub::{blot, is_long_enough};

/// Headers in which clients say who they are. Where we say it, they do not.
const CREDENTIALS: [&str; 10] = [
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-auth-token",
    "x-access-token",
    "x-goog-api-key",
    "x-amz-security-token",
    "private-token",
    "job-token",
];

/// The most bytes of a request's headers, with the secrets in them.
const MOST_BYTES: usize = 64 << 10;

/// The secrets of one request.
pub(super) struct Injections {
    /// Headers that are set, with their values.
    set: Vec<(String, String)>,
    /// Pairs of a placeholder and the secret that takes its place.
    replaced: Vec<(String, String)>,
    /// Secrets that must not come back in an answer.
    blotted: Vec<String>,
    /// Set if we name the client ourselves, so that it cannot.
    identify: bool,
}

/// The headers cannot have the secrets in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum InjectError {
    #[error("with its secrets the request's headers are too long")]
    TooLong,
    #[error("a secret cannot stand in a header")]
    NotAHeader,
}

impl Injections {
    pub(super) fn new(secrets: Vec<Secret>) -> Self {
        let mut injections = Self { set: vec![], replaced: vec![], blotted: vec![], identify: false };
        for Secret { record, value } in secrets {
            match record.injection {
                Injection::Header { header, template } => {
                    injections.set.push((header, template.replace("{}", &value)));
                    injections.protect(value);
                }
                Injection::Placeholder { placeholder } => {
                    injections.replaced.push((placeholder, value.clone()));
                    injections.protect(value);
                }
                Injection::Transform { headers } => injections.transform(headers, &value),
            }
        }
        injections
    }

    fn protect(&mut self, value: String) {
        self.identify = true;
        self.blotted.push(value);
    }

    /// Of headers that somebody has set, those that say who the client is are no more to come back
    /// than other secrets. The rest may well be words that stand in answers anyway.
    fn transform(&mut self, headers: Vec<String>, values: &str) {
        for (header, value) in headers.into_iter().zip(values.split('\n')) {
            if CREDENTIALS.contains(&dashed(&header).as_str()) {
                self.blotted.extend(value.split_ascii_whitespace().last().map(str::to_owned));
            }
            self.set.push((header, value.to_owned()));
        }
    }

    /// Takes out what the client says of itself, and puts the secrets in.
    pub(super) fn apply(&self, headers: &mut HeaderMap) -> Result<(), InjectError> {
        self.replace_placeholders(headers)?;
        for (header, value) in &self.set {
            let name = HeaderName::try_from(header.as_str()).map_err(|_| InjectError::NotAHeader)?;
            headers.insert(name, sensitive(value)?);
        }
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if bytes > MOST_BYTES { Err(InjectError::TooLong) } else { Ok(()) }
    }

    /// Every header without a placeholder that says who the client is goes, and so does whatever a
    /// secret is set in.
    fn replace_placeholders(&self, headers: &mut HeaderMap) -> Result<(), InjectError> {
        let mut kept = HeaderMap::with_capacity(headers.len());
        for (name, value) in headers.iter() {
            let replaced = self.replaced(name, value)?;
            let says_who = self.identify && is_credential(name) && replaced.is_none();
            let is_ours = self.is_set(name) || says_who;
            if !is_ours {
                kept.append(name, replaced.unwrap_or_else(|| value.clone()));
            }
        }
        *headers = kept;
        Ok(())
    }

    /// A value with its placeholders replaced; `None` when there is none in it.
    fn replaced(&self, name: &HeaderName, value: &HeaderValue) -> Result<Option<HeaderValue>, InjectError> {
        let Ok(text) = value.to_str() else { return Ok(None) };
        if let Some(replaced) = self.replace_in(text)? {
            return sensitive(&replaced).map(Some);
        }
        if *name != header::AUTHORIZATION {
            return Ok(None);
        }
        // A name and a password, as programs make it of what stands before the host in an address.
        let Some((scheme, encoded)) = text.split_once(' ') else { return Ok(None) };
        if !scheme.eq_ignore_ascii_case("basic") {
            return Ok(None);
        }
        let decoded = STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let Some(replaced) = decoded.map(|text| self.replace_in(&text)).transpose()?.flatten() else {
            return Ok(None);
        };
        sensitive(&format!("Basic {}", STANDARD.encode(replaced))).map(Some)
    }

    fn replace_in(&self, text: &str) -> Result<Option<String>, InjectError> {
        let mut replaced: Option<String> = None;
        for (placeholder, value) in &self.replaced {
            let current = replaced.as_deref().unwrap_or(text);
            let found = current.matches(placeholder.as_str()).count();
            if found.saturating_mul(value.len()) > MOST_BYTES {
                return Err(InjectError::TooLong);
            }
            if found > 0 {
                replaced = Some(current.replace(placeholder.as_str(), value));
            }
        }
        Ok(replaced)
    }

    /// True if a secret is set in this header, or in one that some servers take for the same.
    fn is_set(&self, name: &HeaderName) -> bool {
        self.set.iter().any(|(header, _)| dashed(header) == dashed(name.as_str()))
    }

    /// Blots out every value in an answer's headers.
    pub(super) fn scrub(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            let mut bytes = value.as_bytes().to_vec();
            let found = self.blotted().filter(|secret| blot(&mut bytes, secret)).count();
            if found > 0 {
                *value = HeaderValue::from_bytes(&bytes).unwrap_or_else(|_| HeaderValue::from_static(""));
            }
        }
    }

    /// The texts that are removed from answers.
    pub(super) fn blotted(&self) -> impl Iterator<Item = &[u8]> {
        self.blotted.iter().map(String::as_bytes).filter(|value| is_long_enough(value))
    }
}

/// Of transforms only those stay that name the host most closely: by its own name, or else by the
/// longest that it is below.
pub(super) fn keep_closest(secrets: &mut Vec<Secret>, host: &HostName) {
    let closeness = |secret: &Secret| {
        let rules = secret.record.hosts.iter().filter(|rule| rule.names(host));
        rules
            .map(|rule| match &rule.target {
                Target::Name(_) => usize::MAX,
                Target::Below(parent) => parent.as_str().len(),
                Target::Network(_) | Target::Any => 0,
            })
            .max()
    };
    let closest = secrets.iter().filter(|secret| secret.record.is_nameless()).filter_map(closeness).max();
    secrets.retain(|secret| !secret.record.is_nameless() || closeness(secret) == closest);
}

fn is_credential(name: &HeaderName) -> bool {
    let name = dashed(name.as_str());
    CREDENTIALS.contains(&name.as_str())
}

/// Gateways of some servers make `-` and `_` the same.
fn dashed(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Never shown when headers are printed.
fn sensitive(text: &str) -> Result<HeaderValue, InjectError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| InjectError::NotAHeader)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
#[path = "inject_tests.rs"]
mod tests;
