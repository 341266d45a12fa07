//! Talking to the kernel about links, routes and packet rules: netlink, as far as Warren needs it.
//!
//! A [`Request`] is built and handed to a [`Socket`], which numbers it and waits for its answer.
//! One thread at a time uses a socket. Nothing here knows what a message means; `links` and `nft`
//! do.

mod message;
mod socket;
mod sys;

pub(crate) use message::{Attributes, Message, Request, attribute, text};
pub(crate) use socket::{NetlinkError, Protocol, Socket};
