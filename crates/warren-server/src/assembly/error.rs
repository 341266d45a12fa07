use std::io;
use std::path::PathBuf;

use warren_isolate::{ApartError, DataDirError};
use warren_store::pool::PoolError;

use crate::backends::BackendFailure;

/// Why the machine's parts could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error("`{}` is not a pool of this user's alone", path.display())]
    ForeignPool { path: PathBuf },
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Apart(#[from] ApartError),
    #[error("open the {name} backend")]
    Backend { name: &'static str, source: BackendFailure },
    #[error("open the catalog")]
    Catalog(#[source] warren_store::CatalogOpenError),
    #[error("open the templates")]
    Templates(#[source] warren_store::OpenError),
    #[error("read the file of `images.extra_ca`")]
    Registries(#[source] io::Error),
    #[error("open the layers")]
    Layers(#[source] warren_core::LayerError),
    #[error("read which boot of the machine this is")]
    Clock(#[source] io::Error),
}

impl AssemblyError {
    /// The next thing to do about it, where that is known.
    pub fn advice(&self) -> Option<String> {
        let advice = match self {
            Self::DataDir(refused) => return Some(refused.advice()),
            Self::ForeignPool { .. } => "it would be mounted with root's rights: take it away first",
            Self::Backend { .. } => "`warren doctor` checks what sandboxes need",
            Self::Layers(_) => "`warren storage status` says which drivers the data directory can have",
            _ => return None,
        };
        Some(advice.to_owned())
    }
}
