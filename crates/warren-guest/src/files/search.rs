//! Finding files by the shape of their path.

use warren_wire::guest::{ByteString, Failure};

use super::Task;
use super::failure::{Stop, invalid};
use super::list::{Batch, open_walk};
use super::place::Place;

/// Entries passed over in silence before the connection is looked at.
pub(super) const SILENCE: usize = 512;

pub(super) fn glob(task: &mut Task, place: &Place, pattern: &ByteString, limit: u32) -> Result<(), Stop> {
    let pattern = Shape::new(pattern)?;
    check_limit(limit)?;
    let mut walk = open_walk("search", place, u32::MAX)?;
    let mut batch = Batch::new(place);
    let (mut told, mut silent) = (0, 0);
    while let Some(found) = walk.next().filter(|_| told < limit) {
        if pattern.matches(found.path) && batch.push(&found, &mut task.names) {
            told += 1;
        }
        silent += 1;
        if batch.is_full() {
            task.channel.reply(&batch.take())?;
            silent = 0;
        } else if silent >= SILENCE {
            task.channel.check()?;
            silent = 0;
        }
    }
    batch.finish(task)
}

pub(super) fn check_limit(limit: u32) -> Result<(), Failure> {
    if limit == 0 { Err(invalid("search: a limit of 0 finds nothing")) } else { Ok(()) }
}

/// A glob for relative paths.
pub(super) struct Shape {
    pattern: Vec<u8>,
}

impl Shape {
    pub(super) fn new(pattern: &ByteString) -> Result<Self, Failure> {
        let refuse = |reason: &str| invalid(format!("use glob `{}`: {reason}", pattern.to_text()));
        let text = std::str::from_utf8(pattern.as_bytes()).map_err(|_| refuse("it is not UTF-8"))?;
        if text.is_empty() {
            return Err(refuse("it is empty"));
        }
        // The matcher would negate; the protocol's globs do not.
        let pattern = if text.starts_with('!') { format!("\\{text}") } else { text.to_owned() };
        fast_glob::validate(&pattern).map_err(|error| refuse(&error.to_string()))?;
        Ok(Self { pattern: pattern.into_bytes() })
    }

    pub(super) fn matches(&self, path: &[u8]) -> bool {
        fast_glob::glob_match(&self.pattern, path)
    }
}
