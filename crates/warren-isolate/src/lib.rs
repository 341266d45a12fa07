//! Isolation backends. Each knows how to start an isolated root with the agent as PID 1 and how to dial it; all else
//! is the agent's work, so every backend has every feature.
//!
//! [`Native`] uses the kernel's namespaces directly and needs no other program.

mod data_dir;
mod native;

pub use data_dir::{DataDir, DataDirError, DataDirRefusal};
pub use native::{ApartError, CrashPoint, CrashPointError, Native, NativeOptions, OpenError, live_apart};
