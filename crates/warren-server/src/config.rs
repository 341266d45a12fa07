//! How the server behaves: a file, then the environment, then flags, each over the one before.

mod assigned;
mod error;
mod sections;
mod value;

pub use error::{ConfigError, Origin};
pub use sections::{
    Auth, Chats, Config, Disk, Http, LimitSettings, Log, Mounts, RunSettings, Server, TemplateSettings,
    TimeoutSettings,
};
pub use value::{LogFormat, LogLevel};

use assigned::Assigned;

impl Default for Config {
    fn default() -> Self {
        Self::read(&Assigned::default()).expect("a test reads every default")
    }
}
