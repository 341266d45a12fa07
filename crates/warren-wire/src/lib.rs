//! The messages between Warren's parts, with no internal dependency: a client or the agent compiles
//! nothing else of Warren.
//!
//! [`guest`] is the protocol spoken with the agent inside every sandbox. One call takes one
//! connection: the host dials, sends one [`guest::Request`], and the two sides exchange frames
//! until the call ends. Back-pressure is the byte stream's own, so neither side ever buffers on the
//! other's behalf.
//!
//! With the feature `api`, the module `api` has the bodies of the REST interface, which the agent
//! never sees, and with `client`, the module `client` calls it.

#[cfg(feature = "api")]
pub mod api;
#[cfg(feature = "client")]
pub mod client;
pub mod guest;
