//! The harness of the end-to-end tests: sandboxes on this machine's kernel, looked at from outside
//! and from inside.
//!
//! [`TestEnv`] runs the built `warren` on a data directory of its own, and [`TestServer`] serves
//! it. [`Backend`] calls a backend through `warren_core::Isolation`, so that every backend can be
//! held to the same checks. Both end with a census: a test that leaves a process, a control group,
//! a mount, an id range or a file behind fails.
//!
//! Tests need root. They are set up by variables of the environment:
//!
//! * `WARREN_BIN`: the binary to test. Absent: `cargo build -p warren` is run once and its result
//!   is used.
//! * `WARREN_TEST_DIR`: where data directories are made, on a real disk. Absent: `/var/tmp`.
//! * `WARREN_TEST_BACKEND`: the backend that [`Backend`] opens. Absent: `native`.
//! * `WARREN_TEST_DOCKER`: the socket or the address of the engine, where that backend is `docker`,
//!   and `WARREN_TEST_DOCKER_CERTIFICATES`: the certificates for it.
//!
//! Programs in a sandbox are Python, from files in `probes/`: it can make any system call without
//! compiling anything.

mod backend;
mod binary;
mod census;
mod disk;
mod docker;
mod env;
mod gate;
mod host;
mod http;
mod internet;
mod lxd;
mod notes;
mod output;
mod probe;
mod registry;
mod server;
mod small_root;
mod wait;

pub use backend::{Backend, ExecResult, causes, fill, has_ended, named, open_any, open_lxd, open_named};
pub use census::{count_descriptors, processes_of, resident_bytes};
pub use disk::Disk;
pub use docker::{Authority, DockerEngine};
pub use env::TestEnv;
pub use host::SharedHost;
pub use http::{Answer, read_answer};
pub use internet::{Contact, Internet, Packet, RESOLVER, UPLINK};
pub use lxd::{FOREIGN_IMAGE, IMAGE, LxdPool, PrivateLxd, lxd_request};
pub use notes::{note, notes};
pub use output::Output;
pub use probe::probe;
pub use registry::{LOGIN, Registry, RegistryKind, image_layout, sha256};
pub use server::{ServerSetup, TestServer};
pub use small_root::make as make_small_root;
pub use wait::eventually;

/// Says that a check could not fail on this machine, so that passing would mean nothing.
#[macro_export]
macro_rules! not_tested {
    ($number:expr, $($reason:tt)+) => {
        $crate::note("NOT TESTED", $number, &format!($($reason)+))
    };
}

/// Says that a check finds what it should not, and that this is known. What is found is asserted as
/// it is today, so that closing the gap leads here.
#[macro_export]
macro_rules! known_gap {
    ($number:expr, $($gap:tt)+) => {
        $crate::note("KNOWN GAP", $number, &format!($($gap)+))
    };
}
