use warren_face::error::{ApiError, path_as_text};
use warren_wire::api::{FileChange, FileInfo, GrepLine};
use warren_wire::guest::{ByteString, FileEntry, GrepMatch, WatchEvent};

use super::rfc3339;
use super::words::{file_change_kind, file_type_seen};

const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;

/// A path as a caller wrote it.
pub(crate) fn path(field: &str, text: &str) -> Result<ByteString, ApiError> {
    bounded(field, text, LONGEST_PATH)
}

/// The user whose rights count.
pub(crate) fn user(text: Option<&str>) -> Result<Option<ByteString>, ApiError> {
    text.map(|text| name("user", text)).transpose()
}

pub(crate) fn name(field: &str, text: &str) -> Result<ByteString, ApiError> {
    bounded(field, text, LONGEST_NAME)
}

fn bounded(field: &str, text: &str, longest: usize) -> Result<ByteString, ApiError> {
    if !(1..=longest).contains(&text.len()) || text.contains('\0') {
        return Err(ApiError::invalid(field, format!("`{field}` has 1 to {longest} bytes, and no NUL")));
    }
    Ok(text.into())
}

/// Permission bits in octal.
pub(crate) fn mode(text: &str) -> Result<u32, ApiError> {
    let digits = (3..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let bits = digits.then(|| u32::from_str_radix(text, 8).ok()).flatten();
    bits.ok_or_else(|| ApiError::invalid("mode", "`mode` has three or four octal digits, such as 0644"))
}

pub(crate) fn file_info(entry: FileEntry) -> FileInfo {
    let text = |bytes: ByteString| bytes.to_text().into_owned();
    let (path, path_base64) = path_as_text(entry.path.as_bytes());
    FileInfo {
        path,
        path_base64,
        kind: file_type_seen(entry.kind),
        size_bytes: entry.size,
        mode: format!("{:04o}", entry.permissions & 0o7777),
        uid: entry.uid,
        gid: entry.gid,
        owner: entry.owner.map(text),
        group: entry.group.map(text),
        modified_at: rfc3339(u64::try_from(entry.modified_ns / 1_000_000).unwrap_or(0)),
        target: entry.target.map(text),
        inode: entry.inode,
        links: entry.links,
    }
}

pub(crate) fn grep_line(found: GrepMatch) -> GrepLine {
    let (path, text) = (found.path.to_text().into_owned(), found.text.to_text().into_owned());
    GrepLine { path, line: found.line, text }
}

pub(crate) fn file_change(event: WatchEvent) -> FileChange {
    let change = file_change_kind(event.kind);
    let renamed_to = event.renamed_to.map(|path| path.to_text().into_owned());
    FileChange { change, path: event.path.to_text().into_owned(), renamed_to }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal() {
        assert_eq!(
            (mode("0644").unwrap(), mode("755").unwrap(), mode("4755").unwrap()),
            (0o644, 0o755, 0o4755)
        );
        for text in ["", "7", "0x1f", "888", "77777", "+644", "-644"] {
            assert_eq!(mode(text).unwrap_err().problem().field.as_deref(), Some("mode"), "{text}");
        }
    }

    #[test]
    fn paths_are_neither_empty_nor_endless() {
        for text in [String::new(), "x".repeat(4096), "a\0b".to_owned()] {
            assert_eq!(path("path", &text).unwrap_err().problem().field.as_deref(), Some("path"));
        }
    }
}
