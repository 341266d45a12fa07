use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use warren_core::LayerError;

use super::Name;
use crate::layers::content::failure;

/// How many directories of one path are held open: a path may be deeper than a process may have
/// files open.
const MOST_OPEN: usize = 3;
/// Of a deeper one, each so many-th stays open as well, so that the way back up does not begin at
/// the top each time.
const MILESTONE: usize = 64;
const MOST_MILESTONES: usize = 64;

/// Where a walk goes: what a directory is, and how to get from one into the next.
pub(crate) trait Places {
    type Place: Clone;

    /// Enters the directory `name` of `from`. `path` is where that leads.
    fn enter(&self, from: &Self::Place, path: &Path, name: &Name) -> Result<Self::Place, LayerError>;
}

/// A walk through directories, each before what is in it, in the order of their names. Neither its
/// memory nor the files it holds open grow with the tree, but for the names of the directories on
/// the way.
#[derive(Debug)]
pub(crate) struct Walk<'p, P: Places> {
    places: &'p P,
    path: PathBuf,
    top: Frame<P::Place>,
    frames: Vec<Frame<P::Place>>,
}

#[derive(Debug)]
struct Frame<D> {
    name: Name,
    place: Option<D>,
    pending: std::vec::IntoIter<Name>,
}

/// The next step of a walk.
#[derive(Debug)]
pub(crate) enum Step {
    /// A name in the current directory.
    Name(Name),
    /// The current directory has no more. It is left by [`Walk::leave`].
    Done,
}

impl<'p, P: Places> Walk<'p, P> {
    /// Starts in the directory `top`, which is at `path`, with the names to look at there.
    pub(crate) fn new(places: &'p P, path: &Path, top: P::Place, names: Vec<Name>) -> Self {
        let name = Name { name: c".".to_owned(), part: 0 };
        let top = Frame { name, place: Some(top), pending: names.into_iter() };
        Self { places, path: path.to_owned(), top, frames: Vec::new() }
    }

    pub(crate) fn step(&mut self) -> Step {
        let frame = self.frames.last_mut().unwrap_or(&mut self.top);
        frame.pending.next().map_or(Step::Done, Step::Name)
    }

    /// The path of the current directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a name in the current directory.
    pub(crate) fn path_of(&self, name: &Name) -> PathBuf {
        self.path.join(OsStr::from_bytes(name.name.as_bytes()))
    }

    /// The current directory. Fails if the walk has been given up.
    pub(crate) fn place(&mut self) -> Result<P::Place, LayerError> {
        failure::unless_abandoned()?;
        if let Some(place) = &self.frames.last().unwrap_or(&self.top).place {
            return Ok(place.clone());
        }
        self.reopen()
    }

    pub(crate) fn enter(&mut self, name: Name, place: P::Place, names: Vec<Name>) {
        self.path.push(OsStr::from_bytes(name.name.as_bytes()));
        self.frames.push(Frame { name, place: Some(place), pending: names.into_iter() });
        if let Some(far) = self.frames.len().checked_sub(MOST_OPEN + 1)
            && !is_milestone(far)
            && let Some(frame) = self.frames.get_mut(far)
        {
            frame.place = None;
        }
    }

    /// Leaves the current directory. False if it is where the walk began, which is then over.
    pub(crate) fn leave(&mut self) -> bool {
        self.path.pop();
        self.frames.pop().is_some()
    }

    /// Finds the way from the last directory that is open, and keeps its end open.
    fn reopen(&mut self) -> Result<P::Place, LayerError> {
        let known = self.frames.iter().rposition(|frame| frame.place.is_some());
        let start = known.map_or(0, |index| index + 1);
        let mut place = known
            .and_then(|index| self.frames.get(index))
            .unwrap_or(&self.top)
            .place
            .clone()
            .ok_or_else(lost)?;
        let depth = self.frames.len();
        let missing = self.frames.get_mut(start..).unwrap_or_default();
        let names: usize = missing.iter().map(|frame| frame.name.name.as_bytes().len() + 1).sum();
        let text = self.path.as_os_str().as_bytes();
        let text = text.get(..text.len().saturating_sub(names)).unwrap_or_default();
        let mut path = PathBuf::from(OsStr::from_bytes(if text.is_empty() { b"/" } else { text }));
        for (index, frame) in (start..).zip(missing) {
            path.push(OsStr::from_bytes(frame.name.name.as_bytes()));
            place = self.places.enter(&place, &path, &frame.name)?;
            if index + MOST_OPEN >= depth || is_milestone(index) {
                frame.place = Some(place.clone());
            }
        }
        Ok(place)
    }
}

fn is_milestone(depth: usize) -> bool {
    depth.is_multiple_of(MILESTONE) && depth / MILESTONE < MOST_MILESTONES
}

fn lost() -> LayerError {
    LayerError::new(warren_core::LayerErrorKind::Host, "the start of a walk through layers is not open")
}
