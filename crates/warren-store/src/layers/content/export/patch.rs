//! Changes in the form that `git apply` takes. Git knows files, their executable bit, and links:
//! other differences are left out.

use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use warren_core::{LayerError, LeaveOut, RootTree, Stack};

use super::{git, writing};
use crate::layers::LayerDirectory;
use crate::layers::content::diff::{Compare, Text, hunks, read_text, same_content};
use crate::layers::content::failure;
use crate::layers::content::left_out::{self, LeftOut};
use crate::layers::content::view::Node;

/// Larger files go as they are and not as lines.
const MOST_TEXT_BYTES: u64 = 2 << 20;

pub(super) fn export(
    store: &LayerDirectory,
    root: &[RootTree],
    (from, until): (&Stack, &Stack),
    below: &Path,
    leave_out: &LeaveOut,
    to: &mut dyn Write,
) -> Result<(), LayerError> {
    let rules = left_out::rules_of(store, root, until, leave_out)?;
    let mut left_out = LeftOut::new(rules.as_ref(), below, leave_out)?;
    Compare::open(store, root, from, until, below)?.each(&mut |path, before, after| {
        // The path of a file that was asked for by itself is told from where it lies.
        let name = match path.strip_prefix(below) {
            Ok(name) if !name.as_os_str().is_empty() => name,
            _ => Path::new(path.file_name().unwrap_or_default()),
        };
        // Git refuses a patch of what it keeps itself.
        let own = name.iter().any(|part| part.as_bytes().eq_ignore_ascii_case(b".git"));
        let is_directory = after.or(before).is_some_and(Node::is_directory);
        if !own && !left_out.has(path, is_directory)? {
            let mut file = FilePatch { name: name.as_os_str().as_bytes(), to: &mut *to };
            let (before, after) = (Side::of(before), Side::of(after));
            match (&before, &after) {
                // A file that becomes a link, or the reverse, goes and comes.
                (Some(old), Some(new)) if old.node.file_type() != new.node.file_type() => {
                    file.change(Some(old), None)?;
                    file.change(None, Some(new))?;
                }
                (before, after) => file.change(before.as_ref(), after.as_ref())?,
            }
        }
        Ok(true)
    })
}

/// A file or link as git sees it.
struct Side<'n> {
    node: &'n Node<'n>,
    mode: &'static str,
}

impl<'n> Side<'n> {
    fn of(node: Option<&'n Node<'n>>) -> Option<Self> {
        let node = node?;
        let mode = match node {
            file if file.is_file() && file.permissions() & 0o100 != 0 => "100755",
            file if file.is_file() => "100644",
            link if link.is_symlink() => "120000",
            _ => return None,
        };
        Some(Self { node, mode })
    }

    fn content(&self) -> Result<(Box<dyn Read>, u64), LayerError> {
        if self.node.is_symlink() {
            let target = self.node.target()?;
            let length = target.len() as u64;
            return Ok((Box::new(io::Cursor::new(target)), length));
        }
        Ok((Box::new(failure::Attentive(self.node.open()?)), self.node.length()))
    }

    fn id(&self) -> Result<String, LayerError> {
        let (mut content, length) = self.content()?;
        git::blob_id(&mut content, length).map_err(failure::io("read a file of a layer"))
    }

    fn text(&self) -> Result<Text, LayerError> {
        if self.node.is_symlink() {
            return Ok(String::from_utf8(self.node.target()?).map_or(Text::Binary, Text::Lines));
        }
        read_text(self.node, MOST_TEXT_BYTES)
    }
}

/// The patch of one file.
struct FilePatch<'p> {
    name: &'p [u8],
    to: &'p mut dyn Write,
}

impl FilePatch<'_> {
    fn change(&mut self, before: Option<&Side<'_>>, after: Option<&Side<'_>>) -> Result<(), LayerError> {
        let same_content = match (before, after) {
            (None, None) => return Ok(()),
            (Some(before), Some(after)) if before.node.is_symlink() => {
                before.node.target()? == after.node.target()?
            }
            (Some(before), Some(after)) => same_content(before.node, after.node)?,
            _ => false,
        };
        if same_content && before.map(|side| side.mode) == after.map(|side| side.mode) {
            return Ok(());
        }
        self.head(before, after).map_err(writing)?;
        if same_content {
            return Ok(());
        }
        let id = |side: Option<&Side<'_>>| side.map_or_else(|| Ok(git::ABSENT.to_owned()), Side::id);
        let mode = match (before, after) {
            (Some(before), Some(after)) if before.mode == after.mode => format!(" {}", after.mode),
            _ => String::new(),
        };
        writeln!(self.to, "index {}..{}{mode}", id(before)?, id(after)?).map_err(writing)?;
        let text = |side: Option<&Side<'_>>| side.map_or(Ok(Text::Lines(String::new())), Side::text);
        match (text(before)?, text(after)?) {
            (Text::Lines(old), Text::Lines(new)) => {
                self.lines((before.is_some(), after.is_some()), &old, &new).map_err(writing)
            }
            _ => self.binary(before, after),
        }
    }

    fn head(&mut self, before: Option<&Side<'_>>, after: Option<&Side<'_>>) -> io::Result<()> {
        let (old, new) = (git::quoted("a/", self.name), git::quoted("b/", self.name));
        self.to.write_all(&[b"diff --git ".as_slice(), &old, b" ", &new, b"\n"].concat())?;
        match (before, after) {
            (None, Some(after)) => writeln!(self.to, "new file mode {}", after.mode),
            (Some(before), None) => writeln!(self.to, "deleted file mode {}", before.mode),
            (Some(before), Some(after)) if before.mode != after.mode => {
                writeln!(self.to, "old mode {}\nnew mode {}", before.mode, after.mode)
            }
            _ => Ok(()),
        }
    }

    fn lines(&mut self, (before, after): (bool, bool), old: &str, new: &str) -> io::Result<()> {
        if old == new {
            return Ok(());
        }
        // A tab says where a name with spaces ends.
        let tab: &[u8] = if self.name.contains(&b' ') { b"\t" } else { b"" };
        for (mark, prefix, there) in [("--- ", "a/", before), ("+++ ", "b/", after)] {
            let name =
                if there { [&git::quoted(prefix, self.name), tab].concat() } else { b"/dev/null".to_vec() };
            self.to.write_all(&[mark.as_bytes(), &name, b"\n"].concat())?;
        }
        hunks(old, new, self.to)
    }

    /// Both ways, so that the patch can be taken back.
    fn binary(&mut self, before: Option<&Side<'_>>, after: Option<&Side<'_>>) -> Result<(), LayerError> {
        writeln!(self.to, "GIT binary patch").map_err(writing)?;
        for side in [after, before] {
            let (mut content, length): (Box<dyn Read>, u64) = match side {
                Some(side) => side.content()?,
                None => (Box::new(io::empty()), 0),
            };
            git::literal(self.to, &mut content, length).map_err(writing)?;
        }
        Ok(())
    }
}
