//! The agent inside every sandbox. See `warren_wire::guest` for the protocol it serves.

fn main() {}
