//! Isolation backends. Each starts an isolated root with the agent as PID 1 and dials it. The agent
//! does everything else, so every backend has every feature.
//!
//! [`Native`] uses the kernel's namespaces directly and needs no other program; [`Oci`] starts
//! sandboxes with a runtime, [`Docker`] has an engine do it, and [`Lxd`] LXD or Incus.

mod data_dir;
mod docker;
mod linux;
mod lxd;
mod native;
mod oci;

use std::path::{Path, PathBuf};

pub use data_dir::{DataDir, DataDirError, DataDirRefusal};
pub use docker::{Docker, DockerOptions, EngineAddress, FarAddress, FarEngine, FillUpper, WrongAddress};
pub use linux::{ApartError, CrashPoint, CrashPointError, LinuxBackend, OpenError, live_apart};
pub use lxd::{Lxd, LxdOpenError, LxdOptions};
pub use native::{Native, NativeOptions};
pub use oci::{Oci, OciOpenError, OciOptions, Runtime, RuntimeError};

/// The directories in which a data directory's sandboxes are, of every backend here, whether they
/// exist or not.
pub fn sandbox_directories(data_dir: &Path) -> impl Iterator<Item = PathBuf> {
    let places =
        Runtime::ALL.map(Runtime::place).into_iter().chain([Native::PLACE, Docker::PLACE, Lxd::PLACE]);
    places.map(move |place| data_dir.join(place.path()).join("sandboxes"))
}
