//! The parts that every HTTP face of Warren shares.
//!
//! A face is one protocol over HTTP: `/v1`, E2B's, the chat service's. It translates requests into
//! calls of the [`warren_engine::Engine`], and answers back. All else is here: [`auth`] knows the
//! keys, [`gate`] lets callers in and keeps requests within their time, [`extract`] reads requests,
//! [`error`] says what went wrong in one vocabulary, and [`route`] is the form in which every face
//! writes its table of routes, so that one test can try all of them.
//!
//! A face needs one value of the server around it, the [`Desk`]. The face's state holds one, and
//! gives it by `axum`'s `FromRef`.

pub mod address;
pub mod arrival;
mod asleep;
pub mod auth;
pub mod body;
pub mod code;
mod desk;
pub mod error;
pub mod extract;
mod fairness;
pub mod files;
pub mod foreign;
pub mod gate;
mod held;
pub mod link;
pub mod link_keys;
mod logging;
pub mod openapi;
pub mod page;
pub mod port;
pub mod request_id;
pub mod route;
mod settings;
pub mod sse;
pub mod text;
pub mod time;
pub mod transfer;
mod turns;

pub use asleep::Asleep;
pub use desk::{Counters, Desk, DeskParts, DeskState};
pub use held::Held;
pub use settings::{AuthSettings, HttpSettings, PortSettings, Settings};
