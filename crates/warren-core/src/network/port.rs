use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::policy::{NetworkPolicy, Protocol};
use crate::check::Check;
use crate::failure::Failure;
use crate::id::SandboxId;
use crate::owner::Owner;

/// Links sandboxes to the world, each under its policy. A sandbox is attached before it starts, and
/// its backend gets the namespace; it is detached when it ends.
///
/// Methods block. One caller at a time for one id.
pub trait Networks: fmt::Debug + Send + Sync {
    /// The needs of the network, each with what was found on the machine. May be called at any
    /// time.
    fn probe(&self) -> Vec<Check>;

    /// Why sandboxes can have no network here; `None` when they can. Mode `none` needs nobody.
    fn unavailable(&self) -> Option<String>;

    /// A namespace with a link to the world for a sandbox that is about to start. All rules hold
    /// before it returns. The policy's mode is not `none`. One that is attached already is detached
    /// first.
    fn attach(
        &self,
        id: &SandboxId,
        owner: &Owner,
        policy: &NetworkPolicy,
    ) -> Result<Attachment, NetworkError>;

    /// Takes over a running sandbox that an earlier process attached. Its rules have held all the
    /// time.
    fn adopt(
        &self,
        id: &SandboxId,
        owner: &Owner,
        policy: &NetworkPolicy,
    ) -> Result<Attachment, NetworkError>;

    /// From now on what the sandbox does must be allowed by every one of these policies; what is
    /// open and no longer allowed is cut, the rest goes on. With the old and the new policy it only
    /// tightens. Whatever fails, nothing is open that was not before. A secret that was removed
    /// since it was named is put into nothing, and is no reason to keep a policy as it is.
    fn set(&self, id: &SandboxId, policies: &[NetworkPolicy]) -> Result<(), NetworkError>;

    /// Takes the link away and gives everything back. Idempotent, and right for a sandbox whose
    /// namespace is gone already.
    fn detach(&self, id: &SandboxId) -> Result<(), NetworkError>;

    /// Takes away all that belongs to other sandboxes than these: what crashes have left. Called
    /// once, at the start.
    fn retain(&self, ids: &HashSet<SandboxId>) -> Result<(), NetworkError>;

    /// Traffic of a sandbox since it was attached; `None` when it is not.
    fn usage(&self, id: &SandboxId) -> Option<NetworkUsage>;

    /// Sets the observer of what sandboxes do. Called once, before anything is attached.
    fn observe(&self, observer: Arc<dyn NetworkObserver>);
}

/// A sandbox's link.
#[derive(Debug)]
pub struct Attachment {
    /// Absent when it was adopted. The link lives as long as this is open.
    pub namespace: Option<OwnedFd>,
    /// The sandbox's own addresses.
    pub addresses: Vec<IpAddr>,
    /// Kept in the sandbox's environment, such as where the certificate is that it has to trust.
    /// `KEY=VALUE`.
    pub env: Vec<String>,
}

/// Hears what sandboxes do. Must not block.
pub trait NetworkObserver: Send + Sync {
    fn saw(&self, id: &SandboxId, entry: NetworkEntry);
}

/// Something a sandbox did or tried on the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkEntry {
    pub verdict: NetworkVerdict,
    pub protocol: Protocol,
    /// The host's name, if the client says one.
    pub host: Option<String>,
    pub address: Option<IpAddr>,
    /// Zero where the protocol has none.
    pub port: u16,
    /// The rule that decided, in words.
    pub rule: String,
    /// The program that did it, if it is known.
    pub process: Option<String>,
    /// How often, since the last entry like it.
    pub count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkVerdict {
    Allowed,
    Denied,
    /// It waits for somebody's answer.
    Asked,
}

/// Figures of one sandbox's link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkUsage {
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_packets: u64,
    pub sent_packets: u64,
    /// Connections through the proxy now.
    pub proxied: u64,
    pub denied: u64,
}

impl NetworkUsage {
    /// Adds what another link carries.
    pub fn add(&mut self, other: &Self) {
        self.received_bytes = self.received_bytes.saturating_add(other.received_bytes);
        self.sent_bytes = self.sent_bytes.saturating_add(other.sent_bytes);
        self.received_packets = self.received_packets.saturating_add(other.received_packets);
        self.sent_packets = self.sent_packets.saturating_add(other.sent_packets);
        self.proxied = self.proxied.saturating_add(other.proxied);
        self.denied = self.denied.saturating_add(other.denied);
    }

    /// As that, of a link that is gone: no connection of it is open any more.
    pub fn add_ended(&mut self, other: &Self) {
        self.add(&Self { proxied: 0, ..*other });
    }
}

/// A link could not be made or changed.
pub type NetworkError = Failure<NetworkErrorKind>;

/// The kind of a [`NetworkError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NetworkErrorKind {
    /// This machine cannot give sandboxes a network.
    Unavailable,
    /// The sandbox is not attached.
    NotFound,
    /// No address is free.
    Exhausted,
    /// A secret that the policy names does not exist.
    NoSecret,
    /// The host failed.
    Host,
}

/// For a machine that can give no sandbox a network, with the reason.
#[derive(Debug, Clone)]
pub struct NoNetworks {
    pub reason: String,
    pub checks: Vec<Check>,
}

impl NoNetworks {
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), checks: Vec::new() }
    }

    fn refuse<T>(&self) -> Result<T, NetworkError> {
        Err(NetworkError::new(NetworkErrorKind::Unavailable, self.reason.clone()))
    }
}

impl Networks for NoNetworks {
    fn probe(&self) -> Vec<Check> {
        self.checks.clone()
    }

    fn unavailable(&self) -> Option<String> {
        Some(self.reason.clone())
    }

    fn attach(&self, _: &SandboxId, _: &Owner, _: &NetworkPolicy) -> Result<Attachment, NetworkError> {
        self.refuse()
    }

    fn adopt(&self, _: &SandboxId, _: &Owner, _: &NetworkPolicy) -> Result<Attachment, NetworkError> {
        self.refuse()
    }

    fn set(&self, _: &SandboxId, _: &[NetworkPolicy]) -> Result<(), NetworkError> {
        self.refuse()
    }

    fn detach(&self, _: &SandboxId) -> Result<(), NetworkError> {
        Ok(())
    }

    fn retain(&self, _: &HashSet<SandboxId>) -> Result<(), NetworkError> {
        Ok(())
    }

    fn usage(&self, _: &SandboxId) -> Option<NetworkUsage> {
        None
    }

    fn observe(&self, _: Arc<dyn NetworkObserver>) {}
}
