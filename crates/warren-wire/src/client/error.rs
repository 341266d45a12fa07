use std::io;

use crate::api::Problem;

/// Why a call to a server did not work.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("`{address}` is not a server's address: write http://HOST:PORT or https://HOST:PORT")]
    Address { address: String },
    #[error("the API key has characters that no key has")]
    Key,
    /// The authorities that vouch for servers cannot be used.
    #[error("{0}")]
    Trust(String),
    #[error("make the request")]
    Request(#[source] ureq::http::Error),
    #[error("write the request")]
    Encode(#[source] serde_json::Error),
    #[error("talk to the server at {address}")]
    Connect { address: String, source: Box<ureq::Error> },
    #[error("open a stream to the server at {address}")]
    Stream { address: String, source: Box<tungstenite::Error> },
    #[error("read the server's answer")]
    Read(#[source] io::Error),
    #[error("send to the server")]
    Write(#[source] io::Error),
    #[error("understand the server's answer")]
    Decode(#[source] serde_json::Error),
    /// The server's refusal with its reason.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    #[error("the server answered {status}: {text}")]
    Unexpected { status: u16, text: String },
    #[error("the server ended the stream")]
    Ended,
    /// The server's reason for ending the stream.
    #[error("{detail}")]
    Cut { code: String, detail: String },
}

impl ClientError {
    /// The server's own word for what is wrong.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(&problem.code),
            Self::Cut { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Tells whether nobody who is trusted vouches for the server.
    pub fn is_untrusted(&self) -> bool {
        let of_io = |error: &io::Error| {
            error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some_and(is_refusal)
        };
        match self {
            Self::Connect { source, .. } => match source.as_ref() {
                ureq::Error::Io(error) => of_io(error),
                ureq::Error::Rustls(error) => is_refusal(error),
                _ => false,
            },
            Self::Stream { source, .. } => match source.as_ref() {
                tungstenite::Error::Io(error) => of_io(error),
                _ => false,
            },
            _ => false,
        }
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(problem) if problem.status == 404)
    }
}

fn is_refusal(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(_))
}
