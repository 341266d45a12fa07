//! The server as its users and its faults meet it: `warren serve` on this machine's kernel, and
//! `warren` as its client.

mod cli;
mod clock;
mod copies;
mod crash;
mod disk;
mod heavy;
mod hostile;
mod idle;
mod load;
mod mass;
mod names;
mod refusals;
mod shutdown;
