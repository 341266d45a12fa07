//! Templates: what E2B's clients call what sandboxes begin with.
//!
//! They are the owner's images, which the engine builds and keeps, and then the server's own
//! templates, some of them under names that E2B's clients know. Here their words are translated.

mod base;
mod error;
mod handlers;
mod resolve;
mod routes;
mod show;
mod snapshots;
mod steps;
mod tags;
mod upload;

pub(crate) use resolve::{Choice, resolve};
pub(crate) use routes::rows;
pub(crate) use snapshots::{Kept, keep_snapshot, kept_snapshots, snapshot_name};

use axum::routing::MethodRouter;
use warren_face::route::Route;

use crate::state::E2b;

type Row = Route<MethodRouter<E2b>>;
