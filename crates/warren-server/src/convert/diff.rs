use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use warren_core::{Change, DiffOptions, Entry, TextDiff};
use warren_face::error::{ApiError, change_kind, path_as_text};
use warren_face::extract::Params;
use warren_wire::api;

use super::rfc3339;
use super::words::file_type;

const USUAL_LIMIT: u64 = 1000;
pub(crate) const MOST_CHANGES: u64 = 10_000;

/// With `text` a change may be long, so that fewer are told at once.
pub(crate) const MOST_TEXTS: u64 = 1000;

const LONGEST_PATH: usize = 4095;

pub(crate) fn change(change: &Change) -> api::FileDiff {
    let (path, path_base64) = path_as_text(change.path.as_os_str().as_bytes());
    api::FileDiff {
        path,
        path_base64,
        kind: change_kind(change.kind()),
        before: change.before.as_ref().map(state),
        after: change.after.as_ref().map(state),
        text: match &change.text {
            Some(TextDiff::Unified(text)) => Some(text.clone()),
            Some(TextDiff::Same) => Some(String::new()),
            Some(TextDiff::Binary | TextDiff::TooLarge) | None => None,
        },
        binary: change.text == Some(TextDiff::Binary),
        too_large: change.text == Some(TextDiff::TooLarge),
    }
}

pub(crate) fn diff_options(params: &Params) -> Result<DiffOptions, ApiError> {
    let text = params.flag("text")?;
    let most = if text { MOST_TEXTS } else { MOST_CHANGES };
    let limit = params.number("limit", 1, MOST_CHANGES)?.unwrap_or(USUAL_LIMIT).min(most);
    Ok(DiffOptions {
        below: inside_or_root(params, "path")?,
        text,
        most: usize::try_from(limit).unwrap_or(usize::MAX),
        ..DiffOptions::default()
    })
}

/// A path of a sandbox's files that a parameter names; `/` if it names none.
pub(crate) fn inside_or_root(params: &Params, field: &'static str) -> Result<PathBuf, ApiError> {
    params.text(field).map_or_else(|| Ok(PathBuf::from("/")), |text| inside(field, text))
}

/// Absolute, and the same however it was written: nothing is looked for above or beside it.
pub(crate) fn inside(field: &str, text: &str) -> Result<PathBuf, ApiError> {
    let wrong = |detail: &str| ApiError::invalid(field, format!("`{field}` {detail}"));
    if !(1..=LONGEST_PATH).contains(&text.len()) || text.contains('\0') {
        return Err(wrong("has 1 to 4095 bytes, and no NUL"));
    }
    let path = Path::new(text);
    if !path.is_absolute() {
        return Err(wrong("is an absolute path inside the sandbox"));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(wrong("may not have `..` in it"));
    }
    Ok(path.components().collect())
}

fn state(entry: &Entry) -> api::FileState {
    api::FileState {
        kind: file_type(entry.kind),
        size_bytes: entry.size,
        mode: format!("{:04o}", entry.mode & 0o7777),
        uid: entry.uid,
        gid: entry.gid,
        modified_at: rfc3339(u64::try_from(entry.mtime_unix_ms).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_path_inside_is_absolute_and_leads_nowhere_else() {
        assert_eq!(inside("path", "/a//b/./c/").unwrap(), Path::new("/a/b/c"));
        assert_eq!(inside("path", "/").unwrap(), Path::new("/"));
        for text in ["", "a", "/a/../b", "/..", "a\0", "./a", &"/a".repeat(3000)] {
            assert_eq!(inside("path", text).unwrap_err().problem().field.as_deref(), Some("path"), "{text}");
        }
    }

    #[test]
    fn what_became_of_a_text_is_told_apart() {
        let told = |text| {
            let path = PathBuf::from(OsStr::from_bytes(b"/\xff"));
            let change = super::change(&Change { path, before: None, after: None, text });
            (change.text, change.binary, change.too_large, change.path_base64)
        };
        let base64 = Some("L/8=".to_owned());
        assert_eq!(
            told(Some(TextDiff::Unified("@@".into()))),
            (Some("@@".into()), false, false, base64.clone())
        );
        assert_eq!(told(Some(TextDiff::Same)), (Some(String::new()), false, false, base64.clone()));
        assert_eq!(told(Some(TextDiff::Binary)), (None, true, false, base64.clone()));
        assert_eq!(told(Some(TextDiff::TooLarge)), (None, false, true, base64.clone()));
        assert_eq!(told(None), (None, false, false, base64));
    }
}
