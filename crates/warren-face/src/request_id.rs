use std::fmt;
use std::str::FromStr;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use data_encoding::HEXLOWER;
use http::{HeaderName, HeaderValue};

pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

const LONGEST: usize = 128;

tokio::task_local! {
    static CURRENT: RequestId;
}

/// Names one request in its answer and in the log. The client's own word for it, if it is harmless,
/// else a random one.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestId(String);

/// The text could break a log line or a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unusable;

impl RequestId {
    /// The id of the request that this task serves. Tasks that a handler starts have none: hand it
    /// over.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn random() -> Self {
        let mut bits = [0; 12];
        // Without randomness an id repeats, which only makes the log harder to read.
        let _ = getrandom::fill(&mut bits);
        Self(format!("req-{}", HEXLOWER.encode(&bits)))
    }
}

impl FromStr for RequestId {
    type Err = Unusable;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte);
        let valid = (1..=LONGEST).contains(&text.len()) && text.bytes().all(harmless);
        if valid { Ok(Self(text.to_owned())) } else { Err(Unusable) }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Gives the request its id, for everything below it, and puts it on the answer.
pub async fn layer(mut request: Request, next: Next) -> Response {
    let given = request.headers().get(&HEADER).and_then(|value| value.to_str().ok());
    let id = given.and_then(|text| text.parse().ok()).unwrap_or_else(RequestId::random);
    request.extensions_mut().insert(id.clone());
    let mut response = CURRENT.scope(id.clone(), next.run(request)).await;
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_word_is_taken_only_if_it_is_harmless() {
        for good in ["a", "req-1", "4bf92f35/77", &"x".repeat(128)] {
            assert_eq!(good.parse::<RequestId>().map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "a b", "a\n", "\"", "é", "<script>", &"x".repeat(129)] {
            assert_eq!(bad.parse::<RequestId>(), Err(Unusable), "{bad}");
        }
    }
}
