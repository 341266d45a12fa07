//! Extractors: the parts of requests that handlers take. A value that cannot be used is refused
//! with the name of its field.

mod idempotency;
mod json;
mod params;

pub use idempotency::IdempotencyKey;
pub use json::{Json, JsonOrNothing, no_json, says_json};
pub use params::{Known, Params};
