use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::EntryError;

const MAX_PATH: usize = 4096;
const MAX_COMPONENT: usize = 255;

/// A place in the tree: relative, with plain components only. Empty for the root itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TreePath(PathBuf);

impl TreePath {
    /// Reads the name of an archive entry. As `tar` does, a leading `/` is dropped; `..` is
    /// refused, because no honest archive has it and its meaning changes with the links around it.
    pub(crate) fn parse(name: &[u8], max_depth: usize) -> Result<Self, EntryError> {
        if name.len() > MAX_PATH {
            return Err(EntryError::NameTooLong);
        }
        if name.contains(&0) {
            return Err(EntryError::Nul);
        }
        let mut path = PathBuf::new();
        let mut depth = 0;
        for component in name.split(|byte| *byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => return Err(EntryError::ParentComponent),
                long if long.len() > MAX_COMPONENT => return Err(EntryError::ComponentTooLong),
                plain => {
                    path.push(OsStr::from_bytes(plain));
                    depth += 1;
                }
            }
        }
        if depth > max_depth { Err(EntryError::TooDeep { limit: max_depth }) } else { Ok(Self(path)) }
    }

    pub(crate) fn as_path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    /// The directory that holds it and its name there; none for the root.
    pub(crate) fn split(&self) -> Option<(&Path, &OsStr)> {
        Some((self.0.parent()?, self.0.file_name()?))
    }

    /// The first component: which top-level directory this is or lies in.
    pub(crate) fn top(&self) -> Option<&OsStr> {
        self.0.iter().next()
    }

    pub(crate) fn with_name(&self, name: &[u8]) -> Self {
        Self(self.0.with_file_name(OsStr::from_bytes(name)))
    }

    pub(crate) fn join(&self, name: &OsStr) -> Self {
        Self(self.0.join(name))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use proptest::prelude::*;

    use super::*;

    fn parse(name: &[u8]) -> Result<TreePath, EntryError> {
        TreePath::parse(name, 8)
    }

    #[test]
    fn normalises_what_archives_write() {
        for (name, path) in [
            (&b"./usr//bin/"[..], "usr/bin"),
            (b"/etc/passwd", "etc/passwd"),
            (b"./", ""),
            (b"/", ""),
            (b"...", "..."),
        ] {
            assert_eq!(parse(name).unwrap().as_path(), Path::new(path));
        }
    }

    #[test]
    fn refuses_what_could_lead_elsewhere() {
        assert!(matches!(parse(b"a/../b"), Err(EntryError::ParentComponent)));
        assert!(matches!(parse(b"a\0b"), Err(EntryError::Nul)));
        assert!(matches!(parse(&[b'a'; 256]), Err(EntryError::ComponentTooLong)));
        assert!(matches!(parse(&[b'/'; 4097]), Err(EntryError::NameTooLong)));
        assert!(matches!(parse(b"1/2/3/4/5/6/7/8/9"), Err(EntryError::TooDeep { limit: 8 })));
    }

    proptest! {
        #[test]
        fn a_parsed_name_has_plain_components_only(name in proptest::collection::vec(
            prop_oneof![Just(b'/'), Just(b'.'), any::<u8>()], 0..64)) {
            if let Ok(path) = TreePath::parse(&name, 128) {
                prop_assert!(path.as_path().components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert!(!path.as_path().as_os_str().as_bytes().contains(&0));
                let again = TreePath::parse(path.as_path().as_os_str().as_bytes(), 128).unwrap();
                prop_assert_eq!(again, path);
            }
        }
    }
}
