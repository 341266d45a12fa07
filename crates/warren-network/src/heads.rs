//! A strict reader of HTTP/1 messages that are on their way to a lenient one.
//!
//! The library that parses requests takes a line that ends with a bare LF, a length beside chunks,
//! and a request without a host, and each of them is read in another way by somebody else: that is
//! how one request hides another. [`Scanner`] follows the bytes of a connection from request to
//! request, bodies included, and says where the first byte is that may not be there. It keeps some
//! words of state and copies nothing; of a body it only counts the bytes. [`Strict`] puts it
//! between a connection and its parser: the parser gets all that is right, then a byte that no
//! parser takes and the end, so it answers `400` by its own rules and closes.

mod scanner;
mod strict;

pub use self::scanner::{Flaw, FlawKind, Scanner};
pub use self::strict::{Strict, Switch};
