//! Isolation backends. Each starts an isolated root with the agent as PID 1 and dials it. The agent
//! does everything else, so every backend has every feature.
//!
//! [`Native`] uses the kernel's namespaces directly and needs no other program.

mod data_dir;
mod native;

pub use data_dir::{DataDir, DataDirError, DataDirRefusal};
pub use native::{ApartError, CrashPoint, CrashPointError, Native, NativeOptions, OpenError, live_apart};
