//! Why a connection goes nowhere, in words, and how each kind of client is told.

use std::net::IpAddr;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use serde_json::json;
use warren_core::SandboxId;
use warren_core::network::Why;

use crate::dial::DialError;
use crate::dns::UpstreamError;

/// A fatal alert of TLS: access denied.
pub(crate) const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// A connection, or a request, that goes nowhere.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    /// The target as the client calls it, if it does.
    pub(crate) host: Option<String>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
}

/// Why it goes nowhere.
#[derive(Debug)]
pub(crate) enum Reason {
    Denied(Why),
    /// It hides for which host it is.
    Hidden,
    /// Nobody said yes within this time.
    Unanswered(Duration),
    /// The request cannot be read in one way only.
    Malformed(&'static str),
    Unresolved(UpstreamError),
    Unreached(DialError),
    /// The connection broke before there was an answer.
    Broken,
    /// Nobody can tell whether a secret is for it.
    Secrets,
}

/// An answer in HTTP.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) text: String,
}

impl From<DialError> for Reason {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Closed(why) => Self::Denied(why),
            error => Self::Unreached(error),
        }
    }
}

impl Reason {
    /// True if it was decided here, and is not a failure elsewhere.
    pub(crate) fn is_denial(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::Hidden | Self::Unanswered(_))
    }

    /// The rule that decided, for the log.
    pub(crate) fn rule(&self) -> String {
        match self {
            Self::Denied(why) => why.to_string(),
            Self::Hidden => {
                "the connection hides for which host it is: switch Encrypted Client Hello off in the client"
                    .to_owned()
            }
            Self::Unanswered(patience) => format!("nobody allowed it within {} s", patience.as_secs()),
            Self::Malformed(what) => (*what).to_owned(),
            Self::Unresolved(error) => error.to_string(),
            Self::Unreached(error) => match std::error::Error::source(error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            },
            Self::Broken => "the connection broke before there was an answer".to_owned(),
            Self::Secrets => "the sandbox's secrets cannot be read".to_owned(),
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Denied(_) | Self::Hidden | Self::Unanswered(_) => StatusCode::FORBIDDEN,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::Unresolved(UpstreamError::Silent) | Self::Unreached(DialError::Silent { .. }) => {
                StatusCode::GATEWAY_TIMEOUT
            }
            Self::Unresolved(_) | Self::Unreached(_) | Self::Broken | Self::Secrets => {
                StatusCode::BAD_GATEWAY
            }
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Denied(_) | Self::Hidden | Self::Unanswered(_) => "network_denied",
            Self::Malformed(_) => "invalid_request",
            Self::Unresolved(_) | Self::Unreached(_) | Self::Broken | Self::Secrets => "network_unreachable",
        }
    }
}

impl Refusal {
    /// The target, as people write it.
    pub(crate) fn wanted(&self) -> String {
        match (&self.host, self.address) {
            (Some(host), _) => format!("{host}:{}", self.port),
            (None, Some(IpAddr::V6(address))) => format!("[{address}]:{}", self.port),
            (None, Some(address)) => format!("{address}:{}", self.port),
            (None, None) => format!("port {}", self.port),
        }
    }

    /// The command that would open it.
    fn remedy(&self, id: &SandboxId) -> Option<String> {
        match &self.reason {
            Reason::Denied(Why::Closed(_) | Why::Host) => Some(
                "only the operator can open it: `network.exceptions` in the server's configuration"
                    .to_owned(),
            ),
            Reason::Denied(Why::NotPinned) => {
                Some("ask the sandbox's own name server for the address, and use no other".to_owned())
            }
            Reason::Denied(Why::Limit) => Some("close other connections first".to_owned()),
            Reason::Denied(Why::Mode(_)) => Some("this sandbox has no network".to_owned()),
            Reason::Denied(Why::Deny(rule)) => Some(format!(
                "whoever owns the sandbox can take away the rule `{rule}`: warren net set {id} …"
            )),
            Reason::Denied(_) | Reason::Hidden | Reason::Unanswered(_) => {
                let what = self.host.clone().or_else(|| self.address.map(|address| address.to_string()))?;
                Some(format!("whoever owns the sandbox can allow it: warren net allow {id} {what}"))
            }
            Reason::Malformed(_)
            | Reason::Unresolved(_)
            | Reason::Unreached(_)
            | Reason::Broken
            | Reason::Secrets => None,
        }
    }

    /// The answer to a request with these headers.
    pub(crate) fn words(&self, id: &SandboxId, headers: &HeaderMap) -> Words {
        let status = self.reason.status();
        if wants_json(headers) {
            return Words { status, content_type: "application/problem+json", text: self.json(id) };
        }
        let mut text = format!("warren: {}\n", self.sentence());
        text += &format!("  rule:    {}\n  sandbox: {id}\n", self.reason.rule());
        if let Some(remedy) = self.remedy(id) {
            text += &format!("  {remedy}\n");
        }
        Words { status, content_type: "text/plain; charset=utf-8", text }
    }

    fn json(&self, id: &SandboxId) -> String {
        let code = self.reason.code();
        let body = json!({
            "type": format!("urn:warren:problem:{code}"),
            "title": self.sentence(),
            "status": self.reason.status().as_u16(),
            "detail": self.reason.rule(),
            "code": code,
            "rule": self.reason.rule(),
            "host": self.host,
            "address": self.address,
            "port": self.port,
            "sandbox": id.to_string(),
            "remedy": self.remedy(id),
        });
        format!("{body}\n")
    }

    fn sentence(&self) -> String {
        let wanted = self.wanted();
        match &self.reason {
            reason if reason.is_denial() => format!("this sandbox may not reach {wanted}"),
            Reason::Malformed(_) => "the request does not say clearly which host it is for".to_owned(),
            _ => format!("{wanted} could not be reached"),
        }
    }
}

/// True if the client likes JSON better than text.
pub(super) fn wants_json(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| {
        let json = value.find("json");
        json.is_some_and(|json| value.find("text/").is_none_or(|text| json < text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(reason: Reason) -> Refusal {
        Refusal { reason, host: Some("example.com".to_owned()), address: None, port: 80 }
    }

    fn id() -> SandboxId {
        "sbxh7777777777777777777777777".parse().unwrap()
    }

    fn accepting(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, value.parse().unwrap())])
    }

    #[test]
    fn a_denial_says_what_by_which_rule_and_how_to_ask() {
        let words = refusal(Reason::Denied(Why::NotListed)).words(&id(), &HeaderMap::new());
        assert_eq!(words.status, 403);
        for part in [
            "example.com:80",
            "not in the allow list",
            "warren net allow sbxh7777777777777777777777777 example.com",
        ] {
            assert!(words.text.contains(part), "{part}: {}", words.text);
        }
    }

    #[test]
    fn json_is_given_to_those_who_prefer_it() {
        let denied = refusal(Reason::Denied(Why::NotListed));
        for (accept, is_json) in [
            ("application/json", true),
            ("application/vnd.api+json, */*", true),
            ("text/html, application/json", false),
            ("*/*", false),
        ] {
            let words = denied.words(&id(), &accepting(accept));
            assert_eq!(serde_json::from_str::<serde_json::Value>(&words.text).is_ok(), is_json, "{accept}");
        }
        let words = denied.words(&id(), &accepting("application/json"));
        let body: serde_json::Value = serde_json::from_str(&words.text).unwrap();
        assert_eq!(body["host"], "example.com");
        assert_eq!(body["code"], "network_denied");
        assert_eq!(body["rule"], "not in the allow list");
    }

    #[test]
    fn failures_of_the_world_are_no_denials() {
        let address = "192.0.2.1:80".parse().unwrap();
        let cases = [
            (Reason::Unreached(DialError::Silent { address }), 504),
            (
                Reason::Unreached(DialError::Connect {
                    address,
                    source: std::io::ErrorKind::ConnectionRefused.into(),
                }),
                502,
            ),
            (Reason::Unresolved(UpstreamError::NoSuchName), 502),
            (Reason::Unresolved(UpstreamError::Silent), 504),
            (Reason::Malformed("two hosts"), 400),
        ];
        for (reason, status) in cases {
            assert!(!reason.is_denial());
            assert_eq!(refusal(reason).words(&id(), &HeaderMap::new()).status, status);
        }
    }
}
