//! Where a sandbox's bytes may go: policies, the rules they are made of, host names, the ranges
//! that are closed to everybody, and the port behind which links, rules and proxies stand.

mod closed;
mod destination;
mod host;
mod policy;
mod port;
mod rule;
mod secret;

pub use closed::{ClosedRange, Exceptions, closed};
pub use destination::Destination;
pub use host::{Host, HostError, HostName};
pub use policy::{
    Decision, Grant, GrantEffect, NetworkLimits, NetworkMode, NetworkPolicy, PolicyError, PolicyFault,
    Protocol, Why, Wish,
};
pub use port::{
    Attachment, NetworkEntry, NetworkError, NetworkErrorKind, NetworkObserver, NetworkUsage, NetworkVerdict,
    Networks, NoNetworks,
};
pub use rule::{Cidr, NetworkRule, Ports, RuleError, Target};
pub use secret::{Injection, Secret, SecretError, SecretName, SecretRecord};
