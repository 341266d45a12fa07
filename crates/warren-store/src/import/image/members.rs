use std::collections::HashMap;
use std::io::{BufReader, Read as _};
use std::path::{Component, Path};

use crate::import::archive::{Archive, EndMark, Kind};
use crate::import::error::{ImageError, ImportError};
use crate::import::limits::{LimitExceeded, Meter};
use crate::import::stream::Section;
use crate::tree::TreePath;

/// An image has a few members for each layer.
const MAX_MEMBERS: usize = 65_536;
const MAX_LINKS: usize = 8;
/// Bytes of the members' names and of where links lead, which are held in memory.
const MAX_NAMES: usize = 8 << 20;

/// The files in an image's archive, by name.
#[derive(Debug)]
pub(super) struct Members {
    by_name: HashMap<String, Member>,
}

#[derive(Debug)]
enum Member {
    File(Section),
    /// `docker save` wrote a layer that occurs twice as a link to the first.
    Link(String),
}

impl Member {
    fn link_bytes(&self) -> usize {
        match self {
            Self::File(_) => 0,
            Self::Link(target) => target.len(),
        }
    }
}

impl Members {
    pub(super) fn read(archive: &Section, meter: &Meter<'_>) -> Result<Self, ImportError> {
        let limits = &meter.limits;
        let mut by_name = HashMap::new();
        let mut names = 0;
        let mut members =
            Archive::new(BufReader::new(archive.clone()), limits.header_bytes, EndMark::Optional);
        while let Some(entry) = members.next()? {
            if by_name.len() >= MAX_MEMBERS {
                return Err(LimitExceeded::Entries { limit: MAX_MEMBERS as u64 }.into());
            }
            let path = TreePath::parse(&entry.name, limits.depth).map_err(ImportError::entry(&entry.name))?;
            let Some(name) = path.as_path().to_str() else { continue };
            let member = match entry.kind {
                Kind::File if entry.sparse.is_none() => {
                    Member::File(archive.part(entry.content.0, entry.content.1))
                }
                Kind::Symlink => match link_target(name, &entry.link) {
                    Some(target) => Member::Link(target),
                    None => continue,
                },
                _ => continue,
            };
            names += name.len() + member.link_bytes();
            if names > MAX_NAMES {
                let part = "the list of its members".to_owned();
                return Err(ImageError::TooLarge { part, limit: MAX_NAMES as u64 }.into());
            }
            by_name.insert(name.to_owned(), member);
        }
        Ok(Self { by_name })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub(super) fn get(&self, name: &str) -> Result<Section, ImageError> {
        let mut at = name;
        for _ in 0..MAX_LINKS {
            match self.by_name.get(at) {
                Some(Member::File(section)) => return Ok(section.clone()),
                Some(Member::Link(target)) => at = target,
                None => break,
            }
        }
        Err(ImageError::Missing { part: name.chars().take(200).collect() })
    }

    /// Reads a document whole.
    pub(super) fn document(&self, name: &str, meter: &Meter<'_>) -> Result<Vec<u8>, ImportError> {
        let section = self.get(name)?;
        let limit = meter.limits.header_bytes;
        if section.length() > limit {
            return Err(ImageError::TooLarge { part: name.to_owned(), limit }.into());
        }
        let mut text = Vec::new();
        section.take(limit).read_to_end(&mut text).map_err(ImportError::Read)?;
        Ok(text)
    }
}

/// Where a link in the archive leads, as a name in it; none if out of it. Only text is looked at.
fn link_target(name: &str, target: &[u8]) -> Option<String> {
    let target = Path::new(str::from_utf8(target).ok()?);
    let mut parts: Vec<&str> = Path::new(name).parent()?.iter().filter_map(|part| part.to_str()).collect();
    for component in target.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => drop(parts.pop()?),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::link_target;

    #[test]
    fn links_stay_in_the_archive() {
        assert_eq!(link_target("a/layer.tar", b"../b/layer.tar"), Some("b/layer.tar".to_owned()));
        assert_eq!(link_target("a/layer.tar", b"../../b"), None);
        assert_eq!(link_target("a/layer.tar", b"/etc/shadow"), None);
    }
}
