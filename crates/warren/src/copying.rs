//! Files on their way: into archives that are made while they are sent, and out of a sandbox to
//! places of this machine.

pub(crate) mod pack;
pub(crate) mod place;
