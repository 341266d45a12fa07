//! The agent as a host sees it: the built binary, a real socket, real processes.

mod door;
mod files;
mod hostile;
mod input;
mod leaks;
mod output;
mod ports;
mod process;
mod readers;
mod stopping;
mod support;
mod terminal;
