//! The Model Context Protocol, spoken as clients of both generations speak it.

mod client;
mod hostile;
mod protocol;
mod reading;
mod tools;
mod travel;
mod waiting;
