use super::{ArchiveError, Entry};

const XATTR: &[u8] = b"SCHILY.xattr.";
const MAX_XATTRS: usize = 256;

/// A PAX extended header, about the entry after it.
#[derive(Debug, Default)]
pub(super) struct Pax {
    pub(super) size: Option<u64>,
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    uid: Option<u64>,
    gid: Option<u64>,
    modified: Option<(i64, i64)>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    sparse_name: Option<Vec<u8>>,
    sparse_size: Option<u64>,
}

struct Record<'a> {
    key: &'a [u8],
    value: &'a [u8],
}

impl Pax {
    pub(super) fn parse(mut data: &[u8], offset: u64) -> Result<Self, ArchiveError> {
        let mut pax = Self::default();
        while !data.is_empty() {
            let (record, rest) = record(data).ok_or(ArchiveError::Pax { offset })?;
            pax.add(record.key, record.value).ok_or(ArchiveError::Pax { offset })?;
            data = rest;
        }
        Ok(pax)
    }

    /// A global header applies to all entries after it. Only comments are harmless there.
    pub(super) fn check_global(&self, offset: u64) -> Result<(), ArchiveError> {
        let changes = self.size.is_some()
            || self.name.is_some()
            || self.link.is_some()
            || self.uid.is_some()
            || self.gid.is_some()
            || self.sparse_size.is_some();
        if changes { Err(ArchiveError::Pax { offset }) } else { Ok(()) }
    }

    /// The entry's name, if it is told here: what stands in the entry's header is then only the
    /// beginning of it.
    pub(super) fn take_name(&mut self) -> Option<Vec<u8>> {
        let name = self.name.take();
        self.sparse_name.take().or(name)
    }

    /// Applies it, all but the name and the size. Answers the real size of a sparse file.
    pub(super) fn apply(self, entry: &mut Entry) -> Option<u64> {
        if let Some(link) = self.link {
            entry.link = link;
        }
        entry.uid = self.uid.unwrap_or(entry.uid);
        entry.gid = self.gid.unwrap_or(entry.gid);
        entry.modified = self.modified.unwrap_or(entry.modified);
        entry.xattrs = self.xattrs;
        self.sparse_size
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"size" => self.size = Some(decimal(value)?),
            b"path" => self.name = Some(value.to_owned()),
            b"linkpath" => self.link = Some(value.to_owned()),
            b"uid" => self.uid = Some(decimal(value)?),
            b"gid" => self.gid = Some(decimal(value)?),
            b"mtime" => self.modified = time(value),
            b"GNU.sparse.name" => self.sparse_name = Some(value.to_owned()),
            b"GNU.sparse.realsize" => self.sparse_size = Some(decimal(value)?),
            b"GNU.sparse.major" if value != b"1" => return None,
            b"GNU.sparse.minor" if value != b"0" => return None,
            // Versions before 1.0, which keep the map in the header.
            b"GNU.sparse.map" | b"GNU.sparse.size" | b"GNU.sparse.numblocks" => return None,
            _ => {
                if let Some(name) = key.strip_prefix(XATTR) {
                    if self.xattrs.len() >= MAX_XATTRS {
                        return None;
                    }
                    self.xattrs.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        Some(())
    }
}

/// `length key=value\n`, where the length counts the whole record. Values may hold any byte, so
/// only it tells the end.
fn record(data: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let space = data.iter().take(20).position(|byte| *byte == b' ')?;
    let length = usize::try_from(decimal(&data[..space])?).ok()?;
    let (record, rest) = data.split_at_checked(length)?;
    let text = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = text.iter().position(|byte| *byte == b'=')?;
    Some((Record { key: &text[..equals], value: &text[equals + 1..] }, rest))
}

pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Seconds with an optional fraction. What is no time is none.
fn time(value: &[u8]) -> Option<(i64, i64)> {
    let text = str::from_utf8(value).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds = i64::try_from(decimal(digits.as_bytes())?).ok()?;
    let whole: i64 = seconds.parse().ok()?;
    // Before 1970 the fraction counts backwards.
    if seconds.starts_with('-') && nanoseconds > 0 {
        return Some((whole.checked_sub(1)?, 1_000_000_000 - nanoseconds));
    }
    Some((whole, nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_records_with_any_bytes() {
        let pax = Pax::parse(b"25 SCHILY.xattr.user.a=\n=\n11 size=12\n", 0);
        assert!(pax.is_err(), "the first length is one too few");
        let pax = Pax::parse(b"27 SCHILY.xattr.user.a=1\n=\n11 size=12\n", 0).unwrap();
        assert_eq!(pax.xattrs, [(b"user.a".to_vec(), b"1\n=".to_vec())]);
        assert_eq!(pax.size, Some(12));
    }

    #[test]
    fn refuses_malformed_records() {
        for bad in ["5", "99 a=b\n", "6 a=b", "3 \n", "0 a=b\n", "12 size=-12\n", "11 size=1x\n", " a=b\n"] {
            assert!(Pax::parse(bad.as_bytes(), 0).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn reads_times_on_both_sides_of_1970() {
        assert_eq!(time(b"12.5"), Some((12, 500_000_000)));
        assert_eq!(time(b"-1.25"), Some((-2, 750_000_000)));
        assert_eq!(time(b"x"), None);
    }
}
