//! What links this machine's sandboxes to the world.

use std::sync::Arc;

use warren_core::{Networks, NoNetworks};

use crate::config::Config;

/// Opens it as the settings say. Where that cannot be, whoever is returned says why: only sandboxes without a network need nobody.
pub fn open_networks(_: &Config) -> Arc<dyn Networks> {
    Arc::new(NoNetworks::because("there is none yet"))
}
