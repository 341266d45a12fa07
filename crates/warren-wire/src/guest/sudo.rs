use minicbor::{Decode, Encode};

use super::ByteString;

/// Where the agent listens for [`Elevate`] inside a sandbox.
pub const SUDO_SOCKET: &str = "/run/warren/sudo.sock";

/// A request of the program `sudo` to the agent, inside a sandbox and on a socket of their own.
/// Nothing in a sandbox gains rights by a file's mode, so a user who may act as another has the
/// agent start the program. Sent as one message, whose first bytes carry the descriptors that
/// become standard input, output and error. Answered by [`super::Reply::Exited`] when the program
/// has ended, or [`super::Reply::Failed`]; meanwhile [`super::Control::Signal`] messages are passed
/// on. A connection that closes before takes the program with it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Elevate {
    /// As [`super::Start::user`]. Absent: root.
    #[n(0)]
    pub user: Option<ByteString>,
    /// May be empty for a shell.
    #[n(1)]
    pub argv: Vec<ByteString>,
    #[n(2)]
    pub runs: Runs,
    /// `KEY=VALUE` each, on top of the sandbox's own variables and those that belong to the user.
    #[n(3)]
    pub env: Vec<ByteString>,
    #[n(4)]
    pub cwd: ByteString,
}

/// The program to run on another user's behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Runs {
    /// The program that the arguments name.
    #[n(0)]
    Program,
    /// The user's shell, with the arguments as its command.
    #[n(1)]
    Shell,
    /// As for a login: from the user's home, with nothing of the caller's variables.
    #[n(2)]
    LoginShell,
}
