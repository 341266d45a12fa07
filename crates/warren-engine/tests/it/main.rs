//! The engine against ports that are stricter than the real ones.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by a panic")]

mod actors;
mod away;
mod backends;
mod chaos;
mod crashes;
mod creating;
mod deaths;
mod doom;
mod durability;
mod events;
mod expiry;
mod failing;
mod forks;
mod going_back;
mod heavy_work;
mod idleness;
mod image_roots;
mod images;
mod in_flight;
mod keeping;
mod lifecycle;
mod memory;
mod model;
mod moving;
mod names;
mod networks;
mod nodes;
mod operations;
mod overview;
mod owners;
mod pools;
mod ports;
mod recovery;
mod runs;
mod schedules;
mod sessions;
mod snapshots;
mod support;
mod transfer;
mod travel;
mod walls;
