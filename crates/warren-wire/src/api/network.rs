use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// Where a sandbox's packets are to be allowed to go. The name of a mode alone will do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NetworkRequest {
    pub mode: NetworkMode,
    /// Targets that are open in the modes `allow` and `ask`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Targets that are closed in every mode, whatever opens them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Names of secrets that are put into what it sends to the hosts they are for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    #[serde(skip_serializing_if = "NetworkLimitsRequest::is_empty")]
    pub limits: NetworkLimitsRequest,
}

/// The targets that are open where no rule says otherwise: `none` is loopback only; `public` is the
/// Internet, but never private, link-local or metadata addresses; `allow` is the list only; `ask`
/// is the list, and for the rest somebody is asked; `learn` is as `public`, and the targets that
/// were reached are remembered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum NetworkMode {
    #[default]
    None,
    Public,
    Allow,
    Ask,
    Learn,
}

/// How much of the network one sandbox may use. Whatever is left out takes the server's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NetworkLimitsRequest {
    /// Connections and flows at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 65_536))]
    pub connections: Option<u32>,
    /// New ones in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 65_536))]
    pub new_connections_per_s: Option<u32>,
    /// Bytes in a second to the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 16_384, maximum = 107_374_182_400_u64))]
    pub down_bytes_per_s: Option<u64>,
    /// Bytes in a second from the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 16_384, maximum = 107_374_182_400_u64))]
    pub up_bytes_per_s: Option<u64>,
}

/// Where a sandbox's packets may go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Network {
    pub mode: NetworkMode,
    /// Targets that are open in the modes `allow` and `ask`.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Targets that are closed in every mode, whatever opens them.
    #[serde(default)]
    pub deny: Vec<String>,
    /// Targets that somebody opened or closed since, perhaps for a while.
    #[serde(default)]
    pub grants: Vec<NetworkGrant>,
    /// Names of secrets that are put into what it sends to the hosts they are for.
    #[serde(default)]
    pub secrets: Vec<String>,
    #[serde(default)]
    pub limits: NetworkLimits,
}

/// One rule that was added while the sandbox existed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NetworkGrant {
    #[cfg_attr(feature = "schema", schema(example = "*.example.com:443"))]
    pub rule: String,
    pub effect: NetworkEffect,
    /// Absent: for as long as the sandbox exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub until: Option<String>,
    /// The giver of the grant.
    pub by: String,
}

/// The effect of a rule or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum NetworkEffect {
    Allow,
    Deny,
}

/// How much of the network one sandbox may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NetworkLimits {
    /// Connections and flows at a time.
    pub connections: u32,
    /// New ones in a second.
    pub new_connections_per_s: u32,
    /// Bytes in a second to the sandbox. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_bytes_per_s: Option<u64>,
    /// Bytes in a second from the sandbox. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_bytes_per_s: Option<u64>,
}

/// A sandbox's network as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NetworkStatus {
    pub sandbox_id: String,
    pub policy: Network,
    /// The sandbox's own addresses. Empty where it has no link, as in mode `none` or while it is
    /// stopped.
    pub addresses: Vec<String>,
    /// Absent where it has no link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<NetworkUsage>,
    /// Requests that wait for somebody's answer.
    pub pending: u64,
}

/// Figures of one sandbox's link, since it was attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NetworkUsage {
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_packets: u64,
    pub sent_packets: u64,
    /// Connections through the proxy now.
    pub proxied: u64,
    /// The number of refusals.
    pub denied: u64,
}

/// Rules to add to a sandbox's policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"rules": ["pypi.org", "*.pythonhosted.org:443"], "for_s": 600})))]
pub struct ChangeNetworkRules {
    /// Hosts, names below one (`*.example.com`) or networks, with ports if need be.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 64))]
    pub rules: Vec<String>,
    /// For so many seconds. Left out: for as long as the sandbox exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_622_400))]
    pub for_s: Option<u64>,
}

/// Something that a sandbox did or tried on the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NetworkLogEntry {
    /// Grows with every entry of the sandbox.
    pub number: u64,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub at: String,
    pub verdict: NetworkVerdict,
    pub protocol: NetworkProtocol,
    /// The target as the client calls it, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Absent where the protocol has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The rule that decided, in words.
    #[cfg_attr(feature = "schema", schema(example = "not in the allow list"))]
    pub rule: String,
    /// The program that did it, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// How often, since the last entry like it.
    pub count: u32,
}

/// The verdict. With `asked` it waits for somebody's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum NetworkVerdict {
    Allowed,
    Denied,
    Asked,
}

/// How it wanted to talk. `dns` is a question about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum NetworkProtocol {
    Tcp,
    Udp,
    Icmp,
    Dns,
}

/// A part of a sandbox's network log, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NetworkLog {
    pub items: Vec<NetworkLogEntry>,
    /// Give this back as `after` to go on.
    pub next_after: u64,
}

/// Something that a sandbox in mode `ask` waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NetworkAsk {
    /// The number to answer it by.
    pub number: u64,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub asked_at: String,
    /// When it is forgotten unless it is asked again. The client that tried gives up before that.
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub expires_at: String,
    /// The rule that an answer of `allow` or `deny` adds.
    #[cfg_attr(feature = "schema", schema(example = "example.com:443"))]
    pub rule: String,
    pub protocol: NetworkProtocol,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Absent where the protocol has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The program that waits, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// How often it was tried.
    pub count: u32,
}

/// Targets that a sandbox waits for, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NetworkAskList {
    pub items: Vec<NetworkAsk>,
}

/// An answer to what a sandbox waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"answer": "allow", "for_s": 600})))]
pub struct AnswerNetworkAsk {
    pub answer: NetworkEffect,
    /// For so many seconds. Left out: for as long as the sandbox exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_622_400))]
    pub for_s: Option<u64>,
}

impl NetworkRequest {
    /// A mode alone.
    pub fn of(mode: NetworkMode) -> Self {
        Self { mode, ..Self::default() }
    }
}

impl NetworkLimitsRequest {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// By hand and not as an untagged enum, so that a refusal names the field.
impl<'de> Deserialize<'de> for NetworkRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordOrObject)
    }
}

struct WordOrObject;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    mode: NetworkMode,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
    #[serde(default)]
    secrets: Vec<String>,
    #[serde(default, deserialize_with = "limits")]
    limits: NetworkLimitsRequest,
}

/// A list is no object, although a derived reader would take it for the values in their order.
fn limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NetworkLimitsRequest, D::Error> {
    deserializer.deserialize_map(OnlyObject)
}

struct OnlyObject;

impl<'de> Visitor<'de> for OnlyObject {
    type Value = NetworkLimitsRequest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of limits")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<NetworkLimitsRequest, M::Error> {
        NetworkLimitsRequest::deserialize(MapAccessDeserializer::new(map))
    }
}

impl<'de> Visitor<'de> for WordOrObject {
    type Value = NetworkRequest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a mode (none, public, allow, ask or learn), or an object with `mode`")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<NetworkRequest, E> {
        NetworkMode::deserialize(StrDeserializer::new(word)).map(NetworkRequest::of)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<NetworkRequest, M::Error> {
        let whole = Whole::deserialize(MapAccessDeserializer::new(map))?;
        let Whole { mode, allow, deny, secrets, limits } = whole;
        Ok(NetworkRequest { mode, allow, deny, secrets, limits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NetworkRequest, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_word_is_as_good_as_an_object() {
        assert_eq!(read(r#""public""#), read(r#"{"mode": "public"}"#));
        let whole = r#"{"mode": "allow", "allow": ["example.com"], "deny": ["192.0.2.1"], "secrets": ["token"],
            "limits": {"connections": 10}}"#;
        let request = read(whole).unwrap();
        assert_eq!(
            (request.mode, request.allow.len(), request.limits.connections),
            (NetworkMode::Allow, 1, Some(10))
        );
        let again = serde_json::to_string(&request).unwrap();
        assert_eq!(read(&again).unwrap(), request);
    }

    #[test]
    fn what_is_neither_is_refused_in_words() {
        for (text, expected) in [
            (r#""open""#, "unknown variant `open`, expected one of `none`, `public`"),
            ("7", "expected the name of a mode"),
            ("[]", "expected the name of a mode"),
            ("{}", "missing field `mode`"),
            (r#"{"mode": "allow", "allows": []}"#, "unknown field `allows`"),
            (r#"{"mode": "public", "limits": {"speed": 1}}"#, "unknown field `speed`"),
            (r#"{"mode": "public", "limits": []}"#, "expected an object of limits"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_mode_alone_is_written_short() {
        let text = serde_json::to_string(&NetworkRequest::of(NetworkMode::Public)).unwrap();
        assert_eq!(text, r#"{"mode":"public"}"#);
    }
}
