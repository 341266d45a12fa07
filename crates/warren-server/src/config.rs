//! How the server behaves: a file, then the environment, then flags, each over the one before.
//! `sections` declares every setting once; a name that it does not know is refused wherever it
//! stands.

mod assigned;
mod backends;
#[cfg(test)]
mod document;
mod engine;
mod error;
mod file;
mod images;
mod load;
mod network;
mod policy;
mod sections;
mod validate;
mod value;

pub use backends::{EnabledBackends, OptionalEngine};
pub use error::{ConfigError, Origin};
pub use images::{Mirrors, RegistryHosts};
pub use load::{Loaded, Row, Sources};
pub use network::{DefaultNetwork, OptionalFile, Resolver, Subnet};
pub use policy::MinimumTier;
pub use sections::{
    Auth, Backends, Chats, Config, Disk, Http, LimitSettings, Log, Mounts, NetworkSection, Ports,
    RunSettings, Server, TemplateSettings, TimeoutSettings,
};
pub use value::{LogFormat, LogLevel};

use assigned::Assigned;

impl Default for Config {
    fn default() -> Self {
        Self::read(&Assigned::default()).expect("a test reads every default")
    }
}
