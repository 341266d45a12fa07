//! Browsers in sandboxes.
//!
//! Two programs of the template `browser` run inside: Chromium, which listens for its developer
//! tools, and Playwright's MCP server, which drives it. Both listen on the sandbox's loopback
//! alone, and the host dials them through the agent like any port. [`Browser::ensure`] starts them
//! when somebody asks and nobody listens: so a browser is there again after a rollback, in a fork,
//! after a restart and after it was killed, with the profile that the sandbox's files have.
//!
//! [`Browser::call`] uses one of the [`Tools`], [`frames`](Browser::frames) are what the page
//! looked like after each, and [`live`] lets people look on and take the controls.
//!
//! A sandbox may have put anything on these ports. What comes from there is bounded in size and
//! time, and nothing in it is believed: the list of tools is ours, images are looked at before they
//! are passed on, and text is text.

mod answer;
mod browsers;
mod call;
mod devtools;
mod error;
mod frames;
mod http1;
pub mod live;
mod reading;
mod service;
mod tools;

pub use answer::{Answer, Content};
pub use browsers::{Browser, Browsers};
pub use error::BrowserError;
pub use frames::{Frame, FrameInfo};
pub use service::warm;
pub use tools::{FETCH, READ, Tool, Tools};
