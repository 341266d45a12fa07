//! Doors for the fuzz targets, which are programs of their own: what reads strangers' bytes here,
//! in the plainest terms. There only with `--cfg fuzzing`, so that nothing else comes to depend on
//! it.

pub use crate::dns::fuzzing::{Answered, answer};
pub use crate::egress::fuzzing::{Greeting, Sniffed, addressee, greeting, pass_on, peek, sniff};
