use std::time::Duration;

use warren_core::HostName;

/// The settings that faces go by.
#[derive(Debug, Clone)]
pub struct Settings {
    pub auth: AuthSettings,
    pub http: HttpSettings,
    pub ports: PortSettings,
}

/// Settings of authentication.
#[derive(Debug, Clone, Copy)]
pub struct AuthSettings {
    /// Requests need a key.
    pub enabled: bool,
    /// Failed attempts from one address within the window, before it is told to wait.
    pub max_failures: u64,
    pub failure_window: Duration,
}

/// Limits of requests.
#[derive(Debug, Clone, Copy)]
pub struct HttpSettings {
    /// Bytes of a JSON body.
    pub max_body: u64,
    /// Bytes of a file that is written into a sandbox.
    pub max_upload: u64,
    /// Longest pause in the middle of a request's body.
    pub read_timeout: Duration,
    /// Longest time for a request that is neither a stream nor told by its client how long to wait.
    pub request_timeout: Duration,
}

/// How ports of sandboxes are reached from outside.
#[derive(Debug, Clone)]
pub struct PortSettings {
    pub domain: HostName,
    /// A proxy in front of the server speaks TLS for it.
    pub behind_tls: bool,
}
