//! The effects of the table, asked of a real kernel in network namespaces that end with the test.

mod changes;
mod exceptions;
mod lab;
mod packets;
mod table;
mod told;
