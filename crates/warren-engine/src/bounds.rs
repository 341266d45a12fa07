//! Bounds on what one owner takes, so that there is something left for the others.

pub(crate) mod in_flight;
pub(crate) mod labour;
mod presence;
mod seats;

pub(crate) use self::in_flight::InFlight;
pub use self::labour::{LabourLimits, Place, Room, Share};
pub(crate) use self::presence::Presence;
pub(crate) use self::seats::{Seat, Seats};
