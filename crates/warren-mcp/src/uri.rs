//! The names of what is in a sandbox, as resources have them.

use std::fmt::Write as _;

use warren_core::SandboxId;

pub(crate) const FILE_TEMPLATE: &str = "warren://{sandbox}/files/{+path}";
pub(crate) const OUTPUT_TEMPLATE: &str = "warren://{sandbox}/output/{process}";
pub(crate) const JOURNAL_TEMPLATE: &str = "warren://{sandbox}/journal";

/// The beginning of every name.
const SCHEME: &str = "warren://";
const LONGEST: usize = 8192;

/// Something in a sandbox that has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Thing {
    /// By its absolute path.
    File(String),
    /// Of the process of this number.
    Output(u64),
    Journal,
}

/// A file of a sandbox, by its absolute path.
pub(crate) fn file(sandbox: &SandboxId, path: &str) -> String {
    let mut uri = format!("{SCHEME}{sandbox}/files");
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            byte => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}

/// All that a process wrote, as far as it is kept.
pub(crate) fn output(sandbox: &SandboxId, process: u64) -> String {
    format!("{SCHEME}{sandbox}/output/{process}")
}

pub(crate) fn journal(sandbox: &SandboxId) -> String {
    format!("{SCHEME}{sandbox}/journal")
}

/// The word for a sandbox, and the thing in it, that a name means.
pub(crate) fn parse(uri: &str) -> Option<(String, Thing)> {
    let rest = uri.strip_prefix(SCHEME).filter(|_| uri.len() <= LONGEST)?;
    let (word, rest) = rest.split_once('/')?;
    let thing = match rest.split_once('/') {
        None if rest == "journal" => Thing::Journal,
        Some(("output", number)) => Thing::Output(number.parse().ok()?),
        Some(("files", path)) => Thing::File(format!("/{}", decoded(path)?.trim_start_matches('/'))),
        _ => return None,
    };
    Some((word.to_owned(), thing))
}

/// Text without its percent signs; `None` if it is none.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_mean_nothing_are_none() {
        for uri in [
            "",
            "warren://",
            "warren://a",
            "warren://a/",
            "warren://a/files",
            "warren://a/output/x",
            "file:///etc/passwd",
            "warren://a/journal/1",
            "warren://a/files/%",
            "warren://a/files/%zz",
            "warren://a/files/%ff",
            "warren://a/files/%00",
        ] {
            assert_eq!(parse(uri), None, "{uri}");
        }
        assert_eq!(parse("warren://web/journal"), Some(("web".to_owned(), Thing::Journal)));
        assert_eq!(parse("warren://web/files//etc/hosts"), parse("warren://web/files/etc/hosts"));
    }

    proptest! {
        #[test]
        fn a_file_is_found_by_its_name(path in "/[^\u{0}/][^\u{0}]{0,40}") {
            let id = SandboxId::from_random([7; 16]);
            prop_assert_eq!(parse(&file(&id, &path)), Some((id.to_string(), Thing::File(path))));
        }
    }
}
