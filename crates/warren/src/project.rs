//! A directory of this machine and its copy in a sandbox: what each side holds, who changed what
//! since they were the same, and carrying that over.
//!
//! The sandbox's side is hostile: its names, links and rules are checked and bounded, files are
//! written beside their place and take it whole, no link is followed, and nothing of `.git` is ever
//! brought out, since git runs what is written there.

mod base;
mod carry;
mod here;
mod plan;
mod rules;
mod there;

use serde::{Deserialize, Serialize};

pub(crate) use base::{Base, canonical, fingerprint};
pub(crate) use carry::{Outcome, Work};
pub(crate) use plan::{Deed, Direction, Prefer};

/// A file or link on one side, as a look at its directory tells it. Two that are the same have the
/// same content, as far as can be told without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    size: u64,
    /// When it was changed, in the side's own units.
    changed: i64,
    executable: bool,
    /// The target, if it is a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<String>,
}

/// A file that was the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    here: Stamp,
    there: Stamp,
    digest: String,
    /// False if the sandbox may have changed it between the moment it was sent and the look at it.
    sure: bool,
}

/// Tells whether a link leads to a place below the directory, however it is followed: up first and
/// then down, and not further up than it is deep.
fn is_safe_link(path: &str, target: &str) -> bool {
    let depth = path.split('/').count() - 1;
    let mut ups = 0;
    let mut below = false;
    for part in target.split('/') {
        match part {
            "" if !below && ups == 0 => return false,
            "" | "." => {}
            ".." if below => return false,
            ".." => ups += 1,
            part if part.eq_ignore_ascii_case(".git") => return false,
            _ => below = true,
        }
    }
    ups <= depth && (below || ups > 0)
}

/// Tells whether a path is git's own.
fn is_of_git(path: &str) -> bool {
    path.split('/').any(|part| part.eq_ignore_ascii_case(".git"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_stay_inside_are_safe_and_no_others() {
        for (path, target) in [("a", "b"), ("d/a", "../b/c"), ("d/e/a", "../.."), ("a", "./b"), ("a", "b//c")]
        {
            assert!(is_safe_link(path, target), "{path} {target}");
        }
        for (path, target) in [
            ("a", "/etc/passwd"),
            ("a", ".."),
            ("a", "../x"),
            ("d/a", "../../x"),
            ("d/a", "b/../../.."),
            ("e", "d/x/.."),
            ("a", ""),
            ("a", "."),
            ("a", ".git/config"),
        ] {
            assert!(!is_safe_link(path, target), "{path} {target}");
        }
    }
}
