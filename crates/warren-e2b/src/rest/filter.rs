use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

/// Not what clients write as a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write `KEY=VALUE` pairs with `&` between them, keys and values percent-encoded twice")]
pub struct MetadataFilterError;

/// The pairs that sandboxes must have, of the decoded value of the query's `metadata`. Clients
/// encode keys and values twice before they write the pairs, and all of it once more as a value of
/// the query.
pub fn metadata_filter(text: &str) -> Result<BTreeMap<String, String>, MetadataFilterError> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').ok_or(MetadataFilterError)?;
        Ok((twice(key)?, twice(value)?))
    });
    pairs.collect()
}

fn twice(text: &str) -> Result<String, MetadataFilterError> {
    decode(text).and_then(|text| decode(&text)).ok_or(MetadataFilterError)
}

/// A `+` is a space, as in forms. A `%` that begins nothing is refused: what it was meant to be
/// cannot be known.
fn decode(text: &str) -> Option<String> {
    let escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().ok()?;
    text.split('%').skip(1).all(escape).then(|| decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Result<Vec<(String, String)>, MetadataFilterError> {
        Ok(metadata_filter(text)?.into_iter().collect())
    }

    #[test]
    fn keys_and_values_are_decoded_twice() {
        let one = |key: &str, value: &str| Ok(vec![(key.to_owned(), value.to_owned())]);
        assert_eq!(pairs("a%2520b=c%2526d"), one("a b", "c&d"));
        assert_eq!(pairs("user=abc"), one("user", "abc"));
        assert_eq!(pairs("k="), one("k", ""));
        assert_eq!(pairs("a=b=c"), one("a", "b=c"));
        assert_eq!(pairs("%25C3%25A4=%252B"), one("ä", "+"));
        assert_eq!(pairs("").unwrap(), []);
        assert_eq!(pairs("a=1&b=2").unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for text in ["a", "a%2=1", "%zz=1", "a=%25ff%", "a=%25", "a=%25ff"] {
            assert_eq!(pairs(text), Err(MetadataFilterError), "{text}");
        }
    }
}
