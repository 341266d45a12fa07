use std::collections::BTreeMap;

use http::HeaderMap;
use warren_wire::guest::{Attribute, FileEntry};

use crate::envd::refusal::Refusal;
use crate::envd::visitor::METADATA_PREFIX;

/// The notes of a client about a file.
pub(in crate::envd) type Metadata = BTreeMap<String, String>;

const HEADER_PREFIX: &str = "x-metadata-";

/// The longest name of an attribute that the kernel allows, without the prefix.
const LONGEST_KEY: usize = 246;

/// Keys and values together.
const MOST_BYTES: usize = 4096;

/// The notes of a request about the files that it brings.
pub(super) fn read(headers: &HeaderMap) -> Result<Metadata, Refusal> {
    let mut metadata = Metadata::new();
    for name in headers.keys() {
        let Some(key) = name.as_str().strip_prefix(HEADER_PREFIX) else { continue };
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        let value = value.filter(|value| value.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        let value = value.ok_or_else(|| {
            Refusal::bad_request(format!("the metadata `{key}` has a value that is not printable ASCII"))
        })?;
        if !(1..=LONGEST_KEY).contains(&key.len()) {
            return Err(Refusal::bad_request(format!("a key of metadata has 1 to {LONGEST_KEY} bytes")));
        }
        metadata.insert(key.to_owned(), value.to_owned());
    }
    let bytes: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MOST_BYTES {
        return Err(Refusal::bad_request(format!(
            "metadata has up to {MOST_BYTES} bytes, and this has {bytes}"
        )));
    }
    Ok(metadata)
}

/// All notes about a file, from any client. Values that are no text are left out.
pub(in crate::envd) fn of(entry: &FileEntry) -> Metadata {
    let noted = entry.attributes.iter().flatten().filter_map(|Attribute { name, value }| {
        let key = name.as_bytes().strip_prefix(METADATA_PREFIX.as_bytes())?;
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        Some((text(key)?, text(value.as_bytes())?))
    });
    noted.collect()
}

/// As the agent keeps it.
pub(super) fn attributes(metadata: &Metadata) -> Vec<Attribute> {
    let attribute = |(key, value): (&String, &String)| Attribute {
        name: format!("{METADATA_PREFIX}{key}").into(),
        value: value.as_str().into(),
    };
    metadata.iter().map(attribute).collect()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn keys_are_in_lower_case_and_other_headers_are_none() {
        let read = read(&headers(&[("X-Metadata-Kind", "report"), ("Content-Type", "x")])).unwrap();
        assert_eq!(read, Metadata::from([("kind".to_owned(), "report".to_owned())]));
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let long = format!("x-metadata-{}", "k".repeat(247));
        let large = "v".repeat(4096);
        for pair in
            [("x-metadata-", "v"), (long.as_str(), "v"), ("x-metadata-k", "ä"), ("x-metadata-k", "a\tb")]
        {
            assert!(read(&headers(&[pair])).is_err(), "{pair:?}");
        }
        assert!(read(&headers(&[("x-metadata-k", &large)])).is_err());
        assert!(read(&headers(&[("x-metadata-k", &large[1..])])).is_ok());
    }
}
