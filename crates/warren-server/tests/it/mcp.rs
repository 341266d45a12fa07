//! The Model Context Protocol, spoken as clients of both generations speak it.

mod client;
mod hostile;
mod protocol;
mod tools;
