//! Bounds on what one owner takes, so that there is something left for the others.

pub(crate) mod heavy;
pub(crate) mod in_flight;
mod presence;
mod seats;

pub use self::heavy::{HeavyWorkLimits, Place, Room, Share};
pub(crate) use self::in_flight::InFlight;
pub(crate) use self::presence::Presence;
pub(crate) use self::seats::{Seat, Seats};
