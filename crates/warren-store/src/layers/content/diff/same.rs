use std::fs::File;
use std::io::{self, Read as _};

use warren_core::LayerError;

use crate::layers::content::failure;
use crate::layers::content::view::Node;

const BUFFER: usize = 64 << 10;

/// True if two states have the same at a path. The times of directories and links do not count:
/// they change with the entries, or when a link is made again.
pub(crate) fn same(before: &Node<'_>, after: &Node<'_>) -> Result<bool, LayerError> {
    if before.identity() == after.identity() {
        return Ok(true);
    }
    if before.file_type() != after.file_type() || !same_attributes(before, after)? {
        return Ok(false);
    }
    if before.is_file() {
        Ok(before.modified() == after.modified() && same_content(before, after)?)
    } else if before.is_symlink() {
        Ok(before.target()? == after.target()?)
    } else {
        Ok(before.is_directory() || before.stat.st_rdev == after.stat.st_rdev)
    }
}

/// True if owner, permissions and extended attributes are the same.
fn same_attributes(before: &Node<'_>, after: &Node<'_>) -> Result<bool, LayerError> {
    let plain = |node: &Node<'_>| (node.permissions(), node.stat.st_uid, node.stat.st_gid);
    Ok(plain(before) == plain(after) && before.xattrs()? == after.xattrs()?)
}

/// True if two files have the same content.
pub(crate) fn same_content(before: &Node<'_>, after: &Node<'_>) -> Result<bool, LayerError> {
    if before.identity() == after.identity() {
        return Ok(true);
    }
    if before.length() != after.length() {
        return Ok(false);
    }
    let failed = failure::io("read a file of a layer");
    let files = (before.open()?, after.open()?);
    let mut buffers = (vec![0; BUFFER], vec![0; BUFFER]);
    loop {
        failure::unless_abandoned()?;
        let left = fill(&files.0, &mut buffers.0).map_err(&failed)?;
        let right = fill(&files.1, &mut buffers.1).map_err(&failed)?;
        if buffers.0.get(..left) != buffers.1.get(..right) {
            return Ok(false);
        }
        if left == 0 {
            return Ok(true);
        }
    }
}

fn fill(mut file: &File, mut buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while !buffer.is_empty() {
        match file.read(buffer) {
            Ok(0) => break,
            Ok(read) => {
                filled += read;
                buffer = buffer.get_mut(read..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
