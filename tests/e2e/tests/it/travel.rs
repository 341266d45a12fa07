//! A sandbox's history as its users and its faults meet it: snapshots, going back, forks, and what
//! is made of them.

mod bisect;
mod busy;
mod capture;
mod cli;
mod crash;
mod disk;
mod kinds;
mod lateral;
mod many;
mod power;
mod promote;
mod storage;
mod support;
mod transfer;
mod writers;

pub(crate) use crash::is_of_history;
