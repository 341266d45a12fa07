use std::fmt;

/// What a registry is shown to be let in.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    Password {
        username: String,
        password: String,
    },
    /// What a login left instead of a password. It is good for getting tokens.
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
