//! A browser as people see it while it works, and its controls.
//!
//! One [`Hub`] speaks to the page for all who look on; it is there as long as somebody does. Each
//! of them is a [`Viewer`] and sees the newest frame, however slowly it reads. The controls have
//! one holder at a time, who loses them when nothing was done with them for a while.

mod hub;
mod input;
mod lease;
mod viewer;

pub use hub::{Dialog, Hub, PageState, ShownPage};
pub use input::{Action, Button};
pub use lease::Holder;
pub use viewer::{Refusal, Seen, Viewer};
