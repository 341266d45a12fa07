//! Fetches container images from registries, over the distribution protocol of the OCI.
//!
//! [`Registries`] knows how registries are reached; [`RegistryImage`] is one image at its registry,
//! or at a mirror of it. Both only fetch: what arrives is not believed, and checking it is left to
//! whoever asked for it.
//!
//! Credentials go to the registry that the image's name says and to where that has its tokens made,
//! never to mirrors and never along with a redirect to another host. What leads elsewhere, a
//! redirect or the place of tokens, must not lead into this machine's own networks, nor from TLS to
//! a connection without it.

mod agent;
mod answer;
mod challenge;
mod credentials;
mod endpoint;
mod image;
mod registries;
mod token;

pub use agent::TrustError;
pub use credentials::Credentials;
pub use image::RegistryImage;
pub use registries::{Reach, Registries, RegistrySettings};
