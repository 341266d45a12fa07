use std::cmp::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use warren_core::SandboxRecord;
use warren_face::extract::Params;

use crate::error::E2bError;

const LONGEST_TOKEN: usize = 256;

/// In which order things are listed, by when they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    NewestFirst,
    OldestFirst,
}

impl Order {
    pub(crate) fn read(params: &Params) -> Result<Self, E2bError> {
        match params.text("order") {
            None | Some("" | "desc") => Ok(Self::NewestFirst),
            Some("asc") => Ok(Self::OldestFirst),
            Some(_) => Err(E2bError::bad_request("order: write `asc` or `desc`")),
        }
    }

    pub(crate) fn sort<T>(self, items: &mut [T], token: impl Fn(&T) -> Token) {
        items.sort_by_cached_key(token);
        if self == Self::NewestFirst {
            items.reverse();
        }
    }

    /// True if an item comes after the last one of the page before.
    pub(crate) fn follows(self, item: &Token, last: Option<&Token>) -> bool {
        let side = if self == Self::NewestFirst { Ordering::Less } else { Ordering::Greater };
        last.is_none_or(|last| item.cmp(last) == side)
    }

    fn word(self) -> &'static str {
        match self {
            Self::NewestFirst => "desc",
            Self::OldestFirst => "asc",
        }
    }
}

/// A place in a list. To its readers it is opaque.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token {
    created_unix_ms: u64,
    id: String,
}

impl Token {
    pub(crate) fn new(created_unix_ms: u64, id: impl Into<String>) -> Self {
        Self { created_unix_ms, id: id.into() }
    }

    pub(crate) fn of(record: &SandboxRecord) -> Self {
        Self::new(record.created_unix_ms, record.id.as_str())
    }

    pub(crate) fn written(&self, order: Order) -> Result<HeaderValue, E2bError> {
        let text = format!("{}:{}:{}", order.word(), self.created_unix_ms, self.id);
        HeaderValue::from_str(&URL_SAFE_NO_PAD.encode(text))
            .map_err(|error| warren_face::error::ApiError::internal(error).into())
    }

    /// One of another order is refused: what it left out, nobody would see.
    pub(crate) fn read(text: &str, order: Order) -> Result<Self, E2bError> {
        let found = (text.len() <= LONGEST_TOKEN).then(|| read(text)).flatten();
        let found = found.filter(|(word, _)| word == order.word()).map(|(_, token)| token);
        found.ok_or_else(|| {
            E2bError::bad_request("nextToken: this is not what an earlier page of this order ended with")
        })
    }
}

fn read(text: &str) -> Option<(String, Token)> {
    let plain = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    let (order, rest) = plain.split_once(':')?;
    let (created, id) = rest.split_once(':')?;
    Some((order.to_owned(), Token::new(created.parse().ok()?, id)))
}

/// A moment as RFC 3339 writes it, down to the millisecond that it is in.
pub(crate) fn unix_ms(text: &str) -> Result<u64, E2bError> {
    // In a query a plus sign may have become a space.
    let text = text.trim().replace(' ', "+");
    moment(&text).ok_or_else(|| {
        E2bError::bad_request("startedAfter: write a moment such as `2026-01-31T12:00:00.000Z`")
    })
}

fn moment(text: &str) -> Option<u64> {
    let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(moment.unix_timestamp_nanos() / 1_000_000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_face::time::rfc3339;

    #[test]
    fn a_token_is_good_for_its_own_order_alone() {
        let token = Token::new(1_700_000_000_123, "sbxa:b");
        let text = token.written(Order::NewestFirst).unwrap();
        let text = text.to_str().unwrap();
        assert_eq!(Token::read(text, Order::NewestFirst).unwrap(), token);
        for (text, order) in [(text, Order::OldestFirst), ("", Order::NewestFirst), ("!", Order::NewestFirst)]
        {
            assert_eq!(Token::read(text, order).unwrap_err().status().as_u16(), 400);
        }
        assert!(Token::read(&"A".repeat(1000), Order::NewestFirst).is_err());
    }

    #[test]
    fn one_order_is_the_other_reversed() {
        let mut items = vec![(2, "a"), (1, "b"), (2, "b"), (1, "a")];
        let token = |item: &(u64, &str)| Token::new(item.0, item.1);
        Order::NewestFirst.sort(&mut items, token);
        assert_eq!(items, [(2, "b"), (2, "a"), (1, "b"), (1, "a")]);
        assert!(Order::NewestFirst.follows(&Token::new(1, "b"), Some(&Token::new(2, "a"))));
        assert!(!Order::NewestFirst.follows(&Token::new(2, "a"), Some(&Token::new(2, "a"))));
        Order::OldestFirst.sort(&mut items, token);
        assert_eq!(items, [(1, "a"), (1, "b"), (2, "a"), (2, "b")]);
        assert!(Order::OldestFirst.follows(&Token::new(2, "a"), Some(&Token::new(1, "b"))));
    }

    #[test]
    fn moments_are_read_as_they_are_written() {
        for unix_ms in [0, 951_782_399_999, 951_782_400_000, 1_709_164_800_000, 1_735_689_599_001] {
            assert_eq!(moment(&rfc3339(unix_ms)), Some(unix_ms));
        }
        assert_eq!(moment("2024-12-31T23:59:59.001234Z"), Some(1_735_689_599_001));
        assert_eq!(moment("2025-01-01T00:59:59.001+01:00"), Some(1_735_689_599_001));
        assert_eq!(moment("2024-12-31T22:59:59-01:00"), Some(1_735_689_599_000));
        assert_eq!(unix_ms("2025-01-01T00:59:59 01:00").unwrap(), 1_735_689_599_000);
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for odd in [
            "",
            "now",
            "2024-12-31",
            "2024-12-31T23:59:59",
            "2024-13-01T00:00:00Z",
            "2024-12-31T24:00:00Z",
            "1969-12-31T23:59:59Z",
            "2024-12-31T23:59Z",
            "2024-12-31T23:59:59.xZ",
            "99999-01-01T00:00:00Z",
            "2024-12-31T23:59:59+1",
            "2024-12-31T23:59:59ä",
            "1970-01-01T00:00:00+99:00",
        ] {
            assert!(unix_ms(odd).is_err(), "{odd}");
        }
    }
}
