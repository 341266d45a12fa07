//! What the proxies share: whom they serve, and what the operator has set.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use warren_core::catalog::SecretCatalog;
use warren_core::network::Cidr;

use crate::book::Book;

/// Given to every proxy when it starts. The exceptions of the operator are in the book.
pub(crate) struct Services {
    pub(crate) book: Arc<Book>,
    /// Name servers to ask; none: those of the host's `/etc/resolv.conf`, followed when it changes.
    pub(crate) name_servers: Vec<SocketAddr>,
    /// How long a connection is held while somebody is asked about it.
    pub(crate) ask_patience: Duration,
    pub(crate) data_dir: PathBuf,
    /// Certificates to trust upstream besides the host's.
    pub(crate) extra_ca: Option<PathBuf>,
    /// Absent where there is no catalog: policies that name secrets are refused.
    pub(crate) secrets: Option<Arc<dyn SecretCatalog>>,
    /// All sandboxes' addresses, of other processes too: no proxy ever dials into it.
    pub(crate) subnet: Cidr,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("name_servers", &self.name_servers).finish_non_exhaustive()
    }
}
