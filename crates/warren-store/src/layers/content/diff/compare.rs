use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use warren_core::{LayerError, LayerId, RootTree, Stack};

use super::same::same;
use crate::layers::LayerDirectory;
use crate::layers::content::failure;
use crate::layers::content::view::{self, Merged, Name, Node, Part, Places, Step, View, Walk};

/// Two states side by side.
#[derive(Debug)]
pub(crate) struct Compare {
    before: View,
    after: View,
    /// Of each tree where it is, and what it is in the layers that only one of the states has.
    touched: Vec<(PathBuf, Touched)>,
    below: PathBuf,
}

/// A directory of both states.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    before: Merged,
    after: Merged,
    touched: Touched,
}

/// The parts of a directory that can differ.
#[derive(Debug, Clone)]
enum Touched {
    /// Only what these directories hold.
    In(Vec<Part>),
    /// Anything: one of the layers hides what is below it, or has it from elsewhere.
    All,
}

/// Told of each difference; says whether to go on.
pub(crate) type Visit<'a> =
    dyn FnMut(&Path, Option<&Node<'_>>, Option<&Node<'_>>) -> Result<bool, LayerError> + 'a;

impl Compare {
    /// Compares what is at or below a path.
    pub(crate) fn open(
        store: &LayerDirectory,
        root: &[RootTree],
        from: &Stack,
        to: &Stack,
        below: &Path,
    ) -> Result<Self, LayerError> {
        view::names_of(below)?;
        let layers = not_common(from, to);
        let mut touched = Vec::new();
        for (index, tree) in root.iter().enumerate() {
            let parts = view::uppers(store, &layers, index)?;
            touched.push((tree.at.clone(), Touched::of(parts)?));
        }
        Ok(Self {
            before: View::open(store, root, from)?,
            after: View::open(store, root, to)?,
            touched,
            // Without what a path may hold in excess, like a slash at its end.
            below: below.components().collect(),
        })
    }

    /// Visits every path that differs, in order; each directory before what is in it.
    pub(crate) fn each(&self, visit: &mut Visit<'_>) -> Result<(), LayerError> {
        let root = Path::new("/");
        let top = Pair {
            before: self.before.top(),
            after: self.after.top(),
            touched: self.touched_at(root).unwrap_or(Touched::All),
        };
        if self.below == root
            && let (Some(before), Some(after)) = (top.before.itself()?, top.after.itself()?)
            && !same(&before, &after)?
            && !visit(root, Some(&before), Some(&after))?
        {
            return Ok(());
        }
        let names = self.names(root, &top)?;
        let mut walk = Walk::new(self, root, top, names);
        loop {
            let Step::Name(name) = walk.step() else {
                if walk.leave() {
                    continue;
                }
                return Ok(());
            };
            let (place, path) = (walk.place()?, walk.path_of(&name));
            let before = self.before.find(&place.before, &path, &name)?;
            let after = self.after.find(&place.after, &path, &name)?;
            let equal = match (&before, &after) {
                (None, None) => continue,
                (Some(before), Some(after)) => same(before, after)?,
                _ => false,
            };
            if !equal && path.starts_with(&self.below) && !visit(&path, before.as_ref(), after.as_ref())? {
                return Ok(());
            }
            if [before, after].iter().flatten().any(Node::is_directory) {
                let inner = self.enter(&place, &path, &name)?;
                let names = self.names(&path, &inner)?;
                if !names.is_empty() {
                    walk.enter(name, inner, names);
                }
            }
        }
    }

    /// The names in a directory that may differ.
    fn names(&self, path: &Path, pair: &Pair) -> Result<Vec<Name>, LayerError> {
        let mut names = BTreeSet::new();
        if let Some(next) = next_component(path, &self.below) {
            names.extend(CString::new(next.as_bytes()).ok());
        } else if let Touched::In(parts) = &pair.touched {
            names.extend(parts_names(parts)?);
            let trees = self.touched.iter().filter(|(at, _)| at.parent() == Some(path));
            let name_of = |(at, _): &(PathBuf, Touched)| CString::new(at.file_name()?.as_bytes()).ok();
            names.extend(trees.filter_map(name_of));
        } else if !self.is_same_directory(path, pair)? {
            for (view, directory) in [(&self.before, &pair.before), (&self.after, &pair.after)] {
                names.extend(view.names(path, directory)?.into_iter().map(|name| name.name));
            }
        }
        Ok(names.into_iter().map(|name| Name { name, part: 0 }).collect())
    }

    /// True if both states have the very same real directories here, and thus the same in them.
    fn is_same_directory(&self, path: &Path, pair: &Pair) -> Result<bool, LayerError> {
        let (before, after) = (pair.before.parts(), pair.after.parts());
        if before.len() != after.len() || self.before.has_tree_below(path) {
            return Ok(false);
        }
        for (before, after) in before.iter().zip(after) {
            let failed = failure::errno("look at a directory of a layer");
            let before = rustix::fs::fstat(before).map_err(&failed)?;
            let after = rustix::fs::fstat(after).map_err(&failed)?;
            if (before.st_dev, before.st_ino) != (after.st_dev, after.st_ino) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn touched_at(&self, path: &Path) -> Option<Touched> {
        self.touched.iter().find(|(at, _)| at == path).map(|(_, touched)| touched.clone())
    }
}

impl Places for Compare {
    type Place = Pair;

    fn enter(&self, from: &Pair, path: &Path, name: &Name) -> Result<Pair, LayerError> {
        let touched = match self.touched_at(path) {
            Some(touched) => touched,
            None => from.touched.enter(name)?,
        };
        Ok(Pair {
            before: self.before.enter(&from.before, path, name)?,
            after: self.after.enter(&from.after, path, name)?,
            touched,
        })
    }
}

impl Touched {
    fn of(parts: Vec<Part>) -> Result<Self, LayerError> {
        for part in &parts {
            if Merged::new([part.clone()])?.covers() {
                return Ok(Self::All);
            }
        }
        Ok(Self::In(parts))
    }

    fn enter(&self, name: &Name) -> Result<Self, LayerError> {
        let Self::In(parts) = self else { return Ok(Self::All) };
        let mut inner = Vec::new();
        for part in parts {
            let entered = Merged::part(part).enter(&name.name)?;
            if entered.covers() || entered.redirect().is_some() {
                return Ok(Self::All);
            }
            inner.extend_from_slice(entered.parts());
        }
        Ok(Self::In(inner))
    }
}

fn parts_names(parts: &[Part]) -> Result<Vec<CString>, LayerError> {
    let mut names = Vec::new();
    for part in parts {
        names.extend(Merged::part(part).names()?.into_iter().map(|name| name.name));
    }
    Ok(names)
}

/// The layers that only one of two states stands on.
fn not_common(from: &Stack, to: &Stack) -> Vec<LayerId> {
    let common = from.0.iter().rev().zip(to.0.iter().rev()).take_while(|(from, to)| from == to).count();
    let own = |stack: &Stack| stack.0.iter().take(stack.depth() - common).cloned().collect::<Vec<_>>();
    [own(from), own(to)].concat()
}

/// The next name on the way from a path to one below it.
fn next_component<'b>(path: &Path, below: &'b Path) -> Option<&'b OsStr> {
    below.strip_prefix(path).ok()?.iter().next()
}
