//! Tokens that let their bearer pull from one repository.

use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use ureq::Agent;
use ureq::http::Uri;
use warren_core::{RegistryError, RegistryErrorKind};

use crate::answer::{basic, body, failed};
use crate::credentials::Credentials;

const MOST_ANSWER: u64 = 64 << 10;
/// Of a token that does not say how long it is good for, as the protocol has it.
const USUAL_LIFE: u64 = 60;
const LONGEST_LIFE: u64 = 3600;
const LONGEST_TOKEN: usize = 32 << 10;
const CLIENT: &str = "warren";

/// A header that lets its bearer in for some time.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) header: String,
    until: Instant,
}

/// Where tokens are made, and for what.
#[derive(Debug)]
pub(crate) struct Order<'a> {
    pub(crate) realm: &'a str,
    pub(crate) service: Option<&'a str>,
    pub(crate) repository: &'a str,
}

#[derive(Deserialize)]
struct Answer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

impl Token {
    /// One that lasts.
    pub(crate) fn lasting(header: String) -> Self {
        Self { header, until: Instant::now() + Duration::from_secs(LONGEST_LIFE) }
    }

    pub(crate) fn is_good(&self) -> bool {
        Instant::now() < self.until
    }
}

/// Has a token made. Nobody's credentials are needed for what everybody may pull.
pub(crate) fn get(
    agent: &Agent,
    order: &Order<'_>,
    credentials: Option<&Credentials>,
) -> Result<Token, RegistryError> {
    let place: Uri = order.realm.parse().map_err(|_| nonsense("says no address where to get a token"))?;
    let host = place.host().unwrap_or_default();
    let action = || format!("get a token of `{host}` to pull {}", order.repository);
    let scope = format!("repository:{}:pull", order.repository);
    let mut words = vec![("scope", scope.as_str())];
    words.extend(order.service.map(|service| ("service", service)));
    let response = match credentials {
        Some(Credentials::Identity(token)) => {
            words.extend([("grant_type", "refresh_token"), ("client_id", CLIENT), ("refresh_token", token)]);
            let request = agent.post(&place).content_type("application/x-www-form-urlencoded");
            request.send(form(&words))
        }
        other => {
            let join = if place.query().is_some() { '&' } else { '?' };
            let mut request = agent.get(format!("{}{join}{}", order.realm, form(&words)));
            if let Some(Credentials::Password { username, password }) = other {
                request = request.header("authorization", basic(username, password));
            }
            request.call()
        }
    };
    let response = response.map_err(|error| failed(action(), error))?;
    let status = response.status().as_u16();
    let text = body(response, MOST_ANSWER, action)?;
    match status {
        200 => read(&text).ok_or_else(|| nonsense("has no token in its answer")),
        401 | 403 => Err(RegistryError::new(
            RegistryErrorKind::Denied,
            format!("{}: the credentials are refused", action()),
        )),
        429 | 500.. => Err(RegistryError::new(
            RegistryErrorKind::Unreachable,
            format!("{}: it answers {status}", action()),
        )),
        _ => {
            Err(RegistryError::new(RegistryErrorKind::Refused, format!("{}: it answers {status}", action())))
        }
    }
}

fn read(text: &[u8]) -> Option<Token> {
    let answer: Answer = serde_json::from_slice(text).ok()?;
    let token = answer.token.or(answer.access_token)?;
    let fine = !token.is_empty()
        && token.len() <= LONGEST_TOKEN
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    // Used up to four fifths of its life: clocks differ, and a request takes time.
    let life = answer.expires_in.unwrap_or(USUAL_LIFE).min(LONGEST_LIFE) * 4 / 5;
    fine.then(|| Token {
        header: format!("Bearer {token}"),
        until: Instant::now() + Duration::from_secs(life),
    })
}

fn form(words: &[(&str, &str)]) -> String {
    let quoted = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    let pairs: Vec<_> = words.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
    pairs.join("&")
}

fn nonsense(what: &str) -> RegistryError {
    RegistryError::new(RegistryErrorKind::Refused, format!("the registry {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_header_is_a_token() {
        let header = |text: &[u8]| read(text).map(|token| token.header);
        assert_eq!(header(br#"{"token":"a"}"#).as_deref(), Some("Bearer a"));
        assert_eq!(header(br#"{"access_token":"b","expires_in":300}"#).as_deref(), Some("Bearer b"));
        for bad in
            [&b"{}"[..], b"", b"[]", br#"{"token":""}"#, br#"{"token":"a\r\nx: y"}"#, br#"{"token":7}"#]
        {
            assert_eq!(header(bad), None);
        }
        assert!(read(br#"{"token":"a","expires_in":18446744073709551615}"#).unwrap().is_good());
        assert!(!read(br#"{"token":"a","expires_in":0}"#).unwrap().is_good());
    }
}
