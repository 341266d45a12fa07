use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A TCP port of a sandbox, as it is reached from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Port {
    pub port: u16,
    /// Where it answers. A private port needs a credential there.
    pub url: String,
    /// The host in `url`, without its port. A client that cannot resolve it may send `headers` to
    /// the server instead.
    pub host: String,
    /// With these, any address of the server stands for this port.
    pub headers: BTreeMap<String, String>,
    /// True if everybody may use it.
    pub public: bool,
    /// Opens the port, in the header `Warren-Traffic-Token`. It holds for as long as the sandbox
    /// exists.
    pub token: String,
    /// The request's host that the application sees, if not the one that the client asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_header: Option<String>,
}

/// How a port is to be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetPort {
    /// True if everybody may use it. Left out: no.
    #[serde(default)]
    pub public: bool,
    /// The request's host that the application sees, for applications that answer to some hosts
    /// only, such as `localhost:3000`. Left out: the one that the client asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_length = 260, pattern = "^[!-~]+$"))]
    pub host_header: Option<String>,
}

/// A link is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct MakePortLink {
    /// How long it is good for. Left out: an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 2_592_000, default = 3600))]
    pub expires_in_s: Option<u64>,
    /// It is good for this path and all below it. Left out: `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_length = 1024, pattern = "^/[!-~]*$"))]
    pub path: Option<String>,
    /// Left out: `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<LinkMethods>,
}

/// Which requests a link is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LinkMethods {
    /// `GET`, `HEAD` and `OPTIONS`, and no web sockets.
    Read,
    All,
}

/// An address that opens a port for everybody who has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PortLink {
    pub url: String,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub expires_at: String,
}
