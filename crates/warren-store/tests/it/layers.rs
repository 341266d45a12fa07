//! The store of layers through its port, on real file systems. A test that needs a file system of
//! its own starts itself again in a mount namespace, so that nothing stays mounted however it ends.

mod conformance;
mod copy;
mod crash;
mod delta;
mod drivers;
mod listing;
mod scribble;
mod world;
