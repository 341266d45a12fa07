//! Differences between two states. Only paths that layers touch which are not common to both are
//! looked at, so that the cost of a diff follows the changes and not the size.

mod compare;
mod same;
mod text;

use std::path::{Path, PathBuf};

use warren_core::{Change, DiffOptions, Differences, LayerError, RootTree, Stack, TextDiff};

pub(crate) use compare::Compare;
pub(crate) use same::{same, same_content};
pub(crate) use text::{Bounded, Text, hunks, read_text};

use super::view::{self, Lookup, Node, View};
use crate::layers::LayerDirectory;

/// Bytes of paths that one answer may have: a tenant can make them very long.
const MOST_PATH_BYTES: usize = 16 << 20;
/// Bytes of texts that one answer may have.
const MOST_TEXT_BYTES: usize = 64 << 20;

pub(super) fn diff_each(
    store: &LayerDirectory,
    root: &[RootTree],
    from: &Stack,
    to: &Stack,
    options: &DiffOptions,
    told: &mut dyn FnMut(Change) -> bool,
) -> Result<Differences, LayerError> {
    let compare = Compare::open(store, root, from, to, &options.below)?;
    let (mut count, mut path_bytes, mut text_bytes) = (0, 0, 0);
    let mut end = Differences::All;
    compare.each(&mut |path, before, after| {
        path_bytes += path.as_os_str().len();
        count += 1;
        if count > options.most || path_bytes > MOST_PATH_BYTES {
            end = Differences::More;
            return Ok(false);
        }
        let text = if options.text { text_of(before, after, options, &mut text_bytes)? } else { None };
        let go_on = told(Change {
            path: path.to_owned(),
            before: before.map(Node::entry),
            after: after.map(Node::entry),
            text,
        });
        if !go_on {
            end = Differences::More;
        }
        Ok(go_on)
    })?;
    Ok(end)
}

pub(super) fn differs(
    store: &LayerDirectory,
    root: &[RootTree],
    from: &Stack,
    to: &Stack,
    path: &Path,
) -> Result<bool, LayerError> {
    let mut found = false;
    Compare::open(store, root, from, to, path)?.each(&mut |_, _, _| {
        found = true;
        Ok(false)
    })?;
    Ok(found)
}

pub(super) fn exists(
    store: &LayerDirectory,
    root: &[RootTree],
    stack: &Stack,
    path: &Path,
) -> Result<bool, LayerError> {
    view::names_of(path)?;
    let view = View::open(store, root, stack)?;
    // Without what a path may hold in excess, like a slash at its end.
    let path: PathBuf = path.components().collect();
    Ok(Lookup::new(&view).find(&path)?.is_some())
}

fn text_of(
    before: Option<&Node<'_>>,
    after: Option<&Node<'_>>,
    options: &DiffOptions,
    told: &mut usize,
) -> Result<Option<TextDiff>, LayerError> {
    if [before, after].into_iter().flatten().any(|node| !node.is_file()) {
        return Ok(None);
    }
    if let (Some(before), Some(after)) = (before, after)
        && before.length() == after.length()
        && before.length() <= options.most_text_bytes
        && same_content(before, after)?
    {
        return Ok(Some(TextDiff::Same));
    }
    let read = |node: Option<&Node<'_>>| {
        node.map_or(Ok(Text::Lines(String::new())), |node| read_text(node, options.most_text_bytes))
    };
    Ok(Some(match (read(before)?, read(after)?) {
        (Text::TooLarge, _) | (_, Text::TooLarge) => TextDiff::TooLarge,
        (Text::Binary, _) | (_, Text::Binary) => TextDiff::Binary,
        (Text::Lines(before), Text::Lines(after)) => {
            let most = usize::try_from(options.most_text_bytes).unwrap_or(usize::MAX);
            let mut bounded =
                Bounded { text: Vec::new(), most: most.min(MOST_TEXT_BYTES.saturating_sub(*told)) };
            match hunks(&before, &after, &mut bounded) {
                Ok(()) => {
                    *told += bounded.text.len();
                    // Both sides are text, and so is what is made of them.
                    TextDiff::Unified(String::from_utf8_lossy(&bounded.text).into_owned())
                }
                Err(_) => TextDiff::TooLarge,
            }
        }
    }))
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
