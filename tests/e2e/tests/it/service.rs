//! The server as its users and its faults meet it: `warren serve` on this machine's kernel, and
//! `warren` as its client.

mod cli;
mod clock;
mod copies;
mod crash;
mod disk;
mod every_wall;
mod heavy;
mod hostile;
mod idle;
mod load;
mod many_walls;
mod mass;
mod memory;
mod names;
mod refusals;
mod shutdown;
mod walls;
