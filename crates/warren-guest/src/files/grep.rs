//! Finding lines.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use regex_lite::{Regex, RegexBuilder};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use warren_wire::guest::{ByteString, Failure, GrepMatch, GrepQuery, Reply};

use super::Task;
use super::entry::file_type;
use super::failure::{Stop, invalid, refused};
use super::list::{absolute, open_walk};
use super::place::Place;
use super::read::expect_regular;
use super::search::{SILENCE, Shape, check_limit};

/// Bytes read at a time, and of a line that are searched.
const LINE_BYTES: usize = 64 * 1024;

/// Bytes of a line that are told.
const TEXT_BYTES: usize = 4096;

/// A NUL in so many first bytes makes a file binary.
const PROBE_BYTES: usize = 8192;

/// Payload at which a batch goes out.
const BATCH_BYTES: usize = 64 * 1024;

/// Reads of one file in silence before the connection is looked at.
const SILENT_READS: usize = 64;

pub(super) fn grep(task: &mut Task, place: &Place, query: &GrepQuery) -> Result<(), Stop> {
    let mut search = Search::new(task, query)?;
    let shape = query.files.as_ref().map(Shape::new).transpose()?;
    let wanted = |path: &[u8]| shape.as_ref().is_none_or(|shape| shape.matches(path));
    let top = rustix::fs::stat(place.path()).map_err(|errno| refused("search", place.path(), errno))?;
    if file_type(&top) != FileType::Directory {
        expect_regular("search", place, &top)?;
        let file = open(CWD, place.path(), OFlags::empty())
            .map_err(|errno| refused("search", place.path(), errno))?;
        let name = place.path().file_name().map(OsStr::as_bytes).unwrap_or_default();
        if wanted(name) {
            search.scan(&file, &(&place.tidy()).into())?;
        }
        return search.finish();
    }
    let top: PathBuf = place.tidy();
    let mut walk = open_walk("search", place, u32::MAX)?;
    let mut silent = 0;
    while let Some(found) = walk.next().filter(|_| search.left > 0) {
        silent += 1;
        if silent >= SILENCE {
            search.flush()?;
            silent = 0;
        }
        if found.kind == FileType::RegularFile
            && wanted(found.path)
            && let Ok(file) = open(found.directory, found.name, OFlags::NOFOLLOW)
        {
            search.scan(&file, &absolute(&top, found.path))?;
        }
    }
    search.finish()
}

/// A search in progress.
struct Search<'a> {
    task: &'a mut Task,
    matcher: Matcher,
    left: u32,
    batch: Vec<GrepMatch>,
    bytes: usize,
    buffer: Vec<u8>,
}

impl<'a> Search<'a> {
    fn new(task: &'a mut Task, query: &GrepQuery) -> Result<Self, Failure> {
        check_limit(query.limit)?;
        let matcher = Matcher::new(&query.pattern, query.ignore_case)?;
        let buffer = vec![0; LINE_BYTES];
        Ok(Self { task, matcher, left: query.limit, batch: Vec::new(), bytes: 0, buffer })
    }

    /// Searches one file. An error while reading ends the file, not the search: files vanish.
    fn scan(&mut self, file: &OwnedFd, path: &ByteString) -> Result<(), Stop> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = self.scan_lines(file, path, &mut buffer);
        self.buffer = buffer;
        outcome
    }

    fn scan_lines(&mut self, file: &OwnedFd, path: &ByteString, buffer: &mut [u8]) -> Result<(), Stop> {
        let (mut held, mut line, mut reads) = (0, 1, 0_usize);
        // Whether the start of the line in hand was searched already and its rest is passed over.
        let mut cut = false;
        loop {
            let count = read(file, &mut buffer[held..]);
            if count == 0 {
                return if held > 0 && !cut { self.judge(&buffer[..held], line, path) } else { Ok(()) };
            }
            if reads == 0 && buffer[..count.min(PROBE_BYTES)].contains(&0) {
                return Ok(());
            }
            reads += 1;
            if reads.is_multiple_of(SILENT_READS) {
                self.flush()?;
            }
            let filled = held + count;
            let mut start = 0;
            while let Some(length) = buffer[start..filled].iter().position(|byte| *byte == b'\n') {
                if !std::mem::take(&mut cut) {
                    self.judge(&buffer[start..start + length], line, path)?;
                }
                if self.left == 0 {
                    return Ok(());
                }
                start += length + 1;
                line += 1;
            }
            buffer.copy_within(start..filled, 0);
            held = filled - start;
            if held == buffer.len() {
                if !std::mem::replace(&mut cut, true) {
                    self.judge(&buffer[..held], line, path)?;
                }
                held = 0;
            } else if cut {
                held = 0;
            }
        }
    }

    /// Adds the line if it matches.
    fn judge(&mut self, line: &[u8], number: u64, path: &ByteString) -> Result<(), Stop> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.left == 0 || !self.matcher.is_match(line) {
            return Ok(());
        }
        let text = &line[..line.len().min(TEXT_BYTES)];
        self.left -= 1;
        self.bytes += text.len() + path.as_bytes().len() + 32;
        self.batch.push(GrepMatch { path: path.clone(), line: number, text: text.to_vec().into() });
        if self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Tells what was found so far; with nothing to tell, looks whether anyone still listens.
    fn flush(&mut self) -> Result<(), Stop> {
        if self.batch.is_empty() {
            return self.task.channel.check();
        }
        self.bytes = 0;
        self.task.channel.reply(&Reply::Matches(std::mem::take(&mut self.batch)))
    }

    fn finish(mut self) -> Result<(), Stop> {
        self.flush()?;
        self.task.channel.end()
    }
}

/// A compiled pattern. One without special characters is by far the most common and is found much
/// faster by plain comparison.
enum Matcher {
    Text(String),
    Expression(Regex),
}

impl Matcher {
    fn new(pattern: &str, ignore_case: bool) -> Result<Self, Failure> {
        if !ignore_case && regex_lite::escape(pattern) == pattern {
            return Ok(Self::Text(pattern.to_owned()));
        }
        RegexBuilder::new(pattern)
            .case_insensitive(ignore_case)
            .build()
            .map(Self::Expression)
            .map_err(|error| invalid(format!("use pattern `{pattern}`: {error}")))
    }

    fn is_match(&self, line: &[u8]) -> bool {
        let line = String::from_utf8_lossy(line);
        match self {
            Self::Text(text) => line.contains(text),
            Self::Expression(regex) => regex.is_match(&line),
        }
    }
}

/// Opens a regular file for searching, without ever waiting for one that is not.
fn open(directory: impl AsFd, name: impl Arg, extra: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY | extra;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    match file_type(&rustix::fs::fstat(&file)?) {
        FileType::RegularFile => Ok(file),
        _ => Err(Errno::INVAL),
    }
}

/// Bytes read; 0 at the end and where the file cannot be read on.
fn read(file: &OwnedFd, buffer: &mut [u8]) -> usize {
    loop {
        match rustix::io::read(file, &mut *buffer) {
            Err(Errno::INTR) => {}
            outcome => return outcome.unwrap_or(0),
        }
    }
}
