use warren_core::LayerError;

use super::lines::merge_lines;
use super::same_or_absent;
use crate::layers::content::build::Attributes;
use crate::layers::content::diff::{Text, read_text, same_content};
use crate::layers::content::view::Node;

/// Larger files are not joined line by line.
const MOST_TEXT_BYTES: u64 = 2 << 20;

/// The decision about a path that theirs changed.
#[derive(Debug)]
pub(super) enum Decision {
    /// Ours is as it should be.
    Nothing,
    /// Theirs, as it is.
    Take,
    /// A directory of both gets these.
    Attributes(Attributes),
    /// A file of both is joined.
    File(FileMerge),
    Conflict,
}

/// A file made of two.
#[derive(Debug)]
pub(super) struct FileMerge {
    pub(super) content: Content,
    pub(super) attributes: Attributes,
}

#[derive(Debug)]
pub(super) enum Content {
    Ours,
    Theirs,
    Joined(String),
}

impl FileMerge {
    pub(super) fn length(&self, ours: &Node<'_>, theirs: &Node<'_>) -> u64 {
        match &self.content {
            Content::Ours => ours.length(),
            Content::Theirs => theirs.length(),
            Content::Joined(text) => text.len() as u64,
        }
    }
}

pub(super) fn decide(
    base: Option<&Node<'_>>,
    ours: Option<&Node<'_>>,
    theirs: Option<&Node<'_>>,
) -> Result<Decision, LayerError> {
    if let (Some(ours), Some(theirs)) = (ours, theirs)
        && ours.is_directory()
        && theirs.is_directory()
    {
        return directories(base.filter(|base| base.is_directory()), ours, theirs);
    }
    if same_or_absent(ours, theirs)? {
        return Ok(Decision::Nothing);
    }
    if same_or_absent(base, ours)? {
        return Ok(Decision::Take);
    }
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if ours.is_file() && theirs.is_file() => {
            files(base.filter(|base| base.is_file()), ours, theirs)
        }
        _ if same_or_absent(base, theirs)? => Ok(Decision::Nothing),
        _ => Ok(Decision::Conflict),
    }
}

fn directories(base: Option<&Node<'_>>, ours: &Node<'_>, theirs: &Node<'_>) -> Result<Decision, LayerError> {
    let own = Attributes::of(ours)?;
    let Some(mut joined) = attributes(base, &own, Attributes::of(theirs)?)? else {
        return Ok(Decision::Conflict);
    };
    joined.modified = own.modified;
    Ok(if joined == own { Decision::Nothing } else { Decision::Attributes(joined) })
}

fn files(base: Option<&Node<'_>>, ours: &Node<'_>, theirs: &Node<'_>) -> Result<Decision, LayerError> {
    let own = Attributes::of(ours)?;
    let foreign = Attributes::of(theirs)?;
    let (our_time, their_time) = (own.modified, foreign.modified);
    let Some(mut attributes) = attributes(base, &own, foreign)? else { return Ok(Decision::Conflict) };
    let Some(content) = content(base, ours, theirs)? else { return Ok(Decision::Conflict) };
    attributes.modified = match content {
        Content::Ours => our_time,
        Content::Theirs => their_time,
        Content::Joined(_) => our_time.max(their_time),
    };
    if matches!(content, Content::Ours) && attributes == own {
        return Ok(Decision::Nothing);
    }
    Ok(Decision::File(FileMerge { content, attributes }))
}

fn content(
    base: Option<&Node<'_>>,
    ours: &Node<'_>,
    theirs: &Node<'_>,
) -> Result<Option<Content>, LayerError> {
    if same_content(ours, theirs)? {
        return Ok(Some(Content::Ours));
    }
    let Some(base) = base else { return Ok(None) };
    if same_content(base, ours)? {
        return Ok(Some(Content::Theirs));
    }
    if same_content(base, theirs)? {
        return Ok(Some(Content::Ours));
    }
    let read = |node| read_text(node, MOST_TEXT_BYTES);
    let (Text::Lines(base), Text::Lines(ours), Text::Lines(theirs)) =
        (read(base)?, read(ours)?, read(theirs)?)
    else {
        return Ok(None);
    };
    Ok(merge_lines(&base, &ours, &theirs).map(Content::Joined))
}

/// Joins what describes a file or directory, one by one; the time is not looked at. None if both
/// changed one differently.
fn attributes(
    base: Option<&Node<'_>>,
    ours: &Attributes,
    theirs: Attributes,
) -> Result<Option<Attributes>, LayerError> {
    let base = base.map(Attributes::of).transpose()?;
    let base = base.as_ref();
    let joined = || {
        Some(Attributes {
            mode: join(base.map(|base| base.mode), ours.mode, theirs.mode)?,
            uid: join(base.map(|base| base.uid), ours.uid, theirs.uid)?,
            gid: join(base.map(|base| base.gid), ours.gid, theirs.gid)?,
            modified: ours.modified,
            xattrs: join(base.map(|base| base.xattrs.clone()), ours.xattrs.clone(), theirs.xattrs)?,
        })
    };
    Ok(joined())
}

fn join<T: PartialEq>(base: Option<T>, ours: T, theirs: T) -> Option<T> {
    if ours == theirs || base.as_ref() == Some(&theirs) {
        Some(ours)
    } else if base.as_ref() == Some(&ours) {
        Some(theirs)
    } else {
        None
    }
}
