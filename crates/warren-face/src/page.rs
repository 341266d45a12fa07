use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use warren_core::{Cursor, Page};
use warren_wire::api;

use crate::error::ApiError;

const LONGEST: usize = 256;

/// A page with its items converted. To its readers the cursor is opaque.
pub fn page<T, U>(page: &Page<T>, convert: impl Fn(&T) -> U) -> api::Page<U> {
    api::Page { items: page.items.iter().map(convert).collect(), next_cursor: page.next.as_ref().map(write) }
}

pub fn read_cursor(text: &str) -> Result<Cursor, ApiError> {
    read(text).ok_or_else(|| ApiError::invalid("cursor", "this is not what an earlier `next_cursor` said"))
}

fn write(cursor: &Cursor) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}:{}", cursor.created_unix_ms, cursor.id))
}

fn read(text: &str) -> Option<Cursor> {
    let bytes = URL_SAFE_NO_PAD
        .decode(text.get(..LONGEST.min(text.len())).filter(|part| part.len() == text.len())?)
        .ok()?;
    let plain = String::from_utf8(bytes).ok()?;
    let (created, id) = plain.split_once(':')?;
    let digits = created.bytes().all(|byte| byte.is_ascii_digit());
    let word =
        (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let created_unix_ms = created.parse().ok().filter(|_| digits && word)?;
    Some(Cursor { created_unix_ms, id: id.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_as_it_went() {
        let cursor =
            Cursor { created_unix_ms: 1_700_000_000_123, id: "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa".into() };
        assert_eq!(read_cursor(&write(&cursor)).unwrap(), cursor);
    }

    #[test]
    fn whatever_else_is_refused_by_name() {
        let odd = [
            URL_SAFE_NO_PAD.encode("x:sbx"),
            URL_SAFE_NO_PAD.encode("1"),
            URL_SAFE_NO_PAD.encode("1:"),
            URL_SAFE_NO_PAD.encode("-1:a"),
            URL_SAFE_NO_PAD.encode("1:a'; drop table sandboxes"),
            URL_SAFE_NO_PAD.encode([0xff, b':', 0xff]),
            "!".to_owned(),
            String::new(),
            "A".repeat(100_000),
            "ä".repeat(200),
        ];
        for text in odd {
            let problem = read_cursor(&text).unwrap_err().problem();
            assert_eq!((problem.status, problem.field.as_deref()), (422, Some("cursor")));
        }
    }
}
