//! Templates: what E2B's clients call what sandboxes begin with.
//!
//! A name is looked for in the owner's `book`, which has what the owner built and the snapshots that the owner took, and then among
//! the server's own templates. A build (`build`) runs its steps in a sandbox and ends with a snapshot of it; what runs in every sandbox
//! of a template is [`start()`]ed with it.

mod base;
mod book;
mod build;
mod command;
mod contexts;
mod handlers;
mod jobs;
mod reference;
mod resolve;
mod routes;
mod show;
mod snapshots;
mod start;
mod steps;
mod store;
mod upload;
mod work;

pub(crate) use resolve::{Choice, resolve};
pub(crate) use routes::{routes, uploads};
pub(crate) use snapshots::{Kept, check_snapshot_name, keep_snapshot, kept_snapshots, snapshot_name};
pub(crate) use start::start;
pub(crate) use store::{Books, is_build};
