//! The side of the sandbox. All that it says is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use warren_core::ErrorCode;
use warren_wire::api::{FileInfo, FileType};
use warren_wire::client::Client;

use super::plan::Side;
use super::rules::{Rules, bounded};
use super::{Stamp, is_of_git, is_safe_link};
use crate::error::{CliError, is};

/// The depth of directories that are looked into.
const DEEPEST: u32 = 64;

/// Looks at a directory of a sandbox.
pub(super) struct Look<'a> {
    pub(super) client: &'a Client,
    pub(super) sandbox: &'a str,
    /// An absolute path.
    pub(super) top: &'a str,
    pub(super) user: Option<&'a str>,
    pub(super) rules: &'a mut Rules,
    pub(super) side: Side,
    pub(super) left_out: BTreeSet<String>,
    /// Git has a directory of its own at the top.
    pub(super) has_git: bool,
}

impl Look<'_> {
    /// Nothing, if there is no such directory yet.
    pub(super) fn all(&mut self) -> Result<(), CliError> {
        self.directory("", 0)
    }

    /// Looks at everything below a directory with one call, and at directories one by one where
    /// that would be too much: what is left out is often larger than the rest.
    fn directory(&mut self, below: &str, depth: u32) -> Result<(), CliError> {
        let path = if below.is_empty() { self.top.to_owned() } else { format!("{}/{below}", self.top) };
        let list = |depth| self.client.list_files(self.sandbox, &path, depth, self.user);
        let all = match list(DEEPEST) {
            Err(error) if below.is_empty() && is(&error, ErrorCode::PathNotFound) => return Ok(()),
            all => all?,
        };
        let is_whole = !all.truncated;
        let list = if is_whole { all } else { list(1)? };
        if (list.truncated && !is_whole) || depth > DEEPEST {
            return Err(CliError::new(format!(
                "{} has more entries than one list holds",
                path.escape_default()
            ))
            .hint("name what to leave out in .gitignore or .warrenignore"));
        }
        let found: BTreeMap<String, &FileInfo> =
            list.items.iter().filter_map(|entry| Some((self.name(entry)?, entry))).collect();
        for entry in &list.items {
            let Some(name) = self.name(entry) else {
                self.left_out.insert(entry.path.clone());
                continue;
            };
            self.has_git |= name == ".git";
            let is_directory = entry.kind == FileType::Directory;
            let (client, sandbox, user) = (self.client, self.sandbox, self.user);
            let ask = |rules: &Path| {
                let there = rules.to_str().and_then(|rules| found.get(rules));
                let Some(there) = there.filter(|entry| entry.kind == FileType::File) else { return Ok(None) };
                let content = client.read_file(sandbox, &there.path, user)?;
                bounded(content).map(Some).map_err(CliError::new)
            };
            if self.rules.leave_out(&name, is_directory, ask)? {
                continue;
            }
            if is_directory {
                if !is_whole {
                    self.directory(&name, depth + 1)?;
                }
                continue;
            }
            match stamp(&name, entry) {
                Some(stamp) => drop(self.side.insert(name, stamp)),
                None => drop(self.left_out.insert(name)),
            }
        }
        Ok(())
    }

    /// The path of an entry below the top: plain names, and text.
    fn name(&self, entry: &FileInfo) -> Option<String> {
        if entry.path_base64.is_some() {
            return None;
        }
        let name = entry.path.strip_prefix(self.top)?.strip_prefix('/')?;
        let plain = |part: &str| !matches!(part, "" | "." | "..");
        name.split('/').all(plain).then(|| name.to_owned())
    }
}

fn stamp(name: &str, entry: &FileInfo) -> Option<Stamp> {
    if is_of_git(name) {
        return None;
    }
    match entry.kind {
        FileType::File => Some(Stamp {
            size: entry.size_bytes,
            changed: moment(&entry.modified_at)?,
            executable: u32::from_str_radix(&entry.mode, 8).ok()? & 0o100 != 0,
            link: None,
        }),
        FileType::Symlink => {
            let target = entry.target.clone().filter(|target| is_safe_link(name, target))?;
            Some(Stamp { size: 0, changed: 0, executable: false, link: Some(target) })
        }
        _ => None,
    }
}

/// Milliseconds since 1970.
fn moment(text: &str) -> Option<i64> {
    let format = &time::format_description::well_known::Rfc3339;
    let moment = time::OffsetDateTime::parse(text, format).ok()?;
    i64::try_from(moment.unix_timestamp_nanos() / 1_000_000).ok()
}
