//! Files of sandboxes as answers: the part that is wanted, and its bytes.

mod body;
mod range;

pub use body::Outgoing;
pub use range::Wanted;
