use std::fmt;

/// A proof to a registry that somebody may pull.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    Password {
        username: String,
        password: String,
    },
    /// A login left it instead of a password. It is good for getting tokens.
    Identity(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { username, .. } => {
                f.debug_struct("Password").field("username", username).finish_non_exhaustive()
            }
            Self::Identity(_) => f.write_str("Identity"),
        }
    }
}
