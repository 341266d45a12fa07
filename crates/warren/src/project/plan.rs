//! Decides what is carried where. Nothing is read or written here.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use serde::Serialize;

use super::{Known, Stamp};

/// Which way changes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Both,
    /// Into the sandbox alone.
    In,
    /// Out of the sandbox alone.
    Out,
}

/// The side that is right where both sides changed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Prefer {
    Here,
    There,
}

/// The thing to do about one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Act {
    Send,
    Fetch,
    RemoveHere,
    RemoveThere,
    /// Both sides have it, and only its content tells whether they differ.
    Compare,
    /// Both sides have removed it.
    Forget,
}

/// The fate of a path on one side since both were the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Deed {
    Absent,
    Same,
    New,
    Changed,
    Removed,
}

/// A path that both sides changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Clash {
    pub(crate) path: String,
    pub(crate) here: Deed,
    pub(crate) there: Deed,
}

pub(super) type Side = BTreeMap<String, Stamp>;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) acts: BTreeMap<String, Act>,
    pub(super) clashes: Vec<Clash>,
}

/// `left_out` are paths that one of the sides has in a form that is not carried: they are nobody's
/// change.
pub(super) fn plan(
    base: &BTreeMap<String, Known>,
    (here, there): (&Side, &Side),
    left_out: &BTreeSet<String>,
    direction: Direction,
    prefer: Option<Prefer>,
) -> Plan {
    let mut plan = Plan::default();
    let paths: BTreeSet<&String> = base.keys().chain(here.keys()).chain(there.keys()).collect();
    for path in paths.into_iter().filter(|path| !left_out.contains(*path)) {
        let known = base.get(path);
        let ours = deed(known.map(|known| &known.here), here.get(path));
        let mut theirs = deed(known.map(|known| &known.there), there.get(path));
        let unsure = known.is_some_and(|known| !known.sure);
        if unsure && theirs == Deed::Same && matches!(ours, Deed::Changed | Deed::Removed) {
            theirs = Deed::Changed;
        }
        match verdict(ours, theirs, prefer, unsure) {
            Some(Ok(act)) if allowed(act, direction) => drop(plan.acts.insert(path.clone(), act)),
            Some(Err(())) => plan.clashes.push(Clash { path: path.clone(), here: ours, there: theirs }),
            _ => {}
        }
    }
    block(&mut plan, here, there);
    plan
}

fn deed(known: Option<&Stamp>, now: Option<&Stamp>) -> Deed {
    match (known, now) {
        (None, None) => Deed::Absent,
        (None, Some(_)) => Deed::New,
        (Some(_), None) => Deed::Removed,
        (Some(known), Some(now)) if known == now => Deed::Same,
        (Some(_), Some(_)) => Deed::Changed,
    }
}

/// The act, or an error where both sides are right.
fn verdict(ours: Deed, theirs: Deed, prefer: Option<Prefer>, unsure: bool) -> Option<Result<Act, ()>> {
    use Deed::{Absent, Changed, New, Removed, Same};
    let chosen = |here: Act, there: Act| match prefer {
        Some(Prefer::Here) => Some(Ok(here)),
        Some(Prefer::There) => Some(Ok(there)),
        None => None,
    };
    match (ours, theirs) {
        (Same | Absent, Same | Absent) => None,
        (Removed, Removed) => Some(Ok(Act::Forget)),
        (New | Changed, Absent | Same) => Some(Ok(Act::Send)),
        (Absent | Same, New | Changed) => Some(Ok(Act::Fetch)),
        (Removed, Same | Absent) => Some(Ok(Act::RemoveThere)),
        (Same | Absent, Removed) => Some(Ok(Act::RemoveHere)),
        (New | Changed, New | Changed) => chosen(Act::Send, Act::Fetch).or(Some(Ok(Act::Compare))),
        (Removed, _) if unsure => chosen(Act::RemoveThere, Act::Fetch).or(Some(Ok(Act::Compare))),
        (Removed, _) => chosen(Act::RemoveThere, Act::Fetch).or(Some(Err(()))),
        (_, Removed) => chosen(Act::Send, Act::RemoveHere).or(Some(Err(()))),
    }
}

pub(super) fn allowed(act: Act, direction: Direction) -> bool {
    match act {
        Act::Send | Act::RemoveThere => direction != Direction::Out,
        Act::Fetch | Act::RemoveHere => direction != Direction::In,
        Act::Compare | Act::Forget => true,
    }
}

/// Takes back what cannot be done, since a file stands where a directory would have to be.
fn block(plan: &mut Plan, here: &Side, there: &Side) {
    let stands = |side: &Side, removed: Act, path: &str| {
        let stays = |other: &str| side.contains_key(other) && plan.acts.get(other) != Some(&removed);
        let above = path.match_indices('/').any(|(at, _)| stays(&path[..at]));
        let prefix = format!("{path}/");
        let mut below = side.range(prefix.clone()..).take_while(|(other, _)| other.starts_with(&prefix));
        above || below.any(|(other, _)| stays(other))
    };
    let blocked: Vec<(String, Act)> = plan
        .acts
        .iter()
        .filter(|(path, act)| match act {
            Act::Send => stands(there, Act::RemoveThere, path),
            Act::Fetch => stands(here, Act::RemoveHere, path),
            _ => false,
        })
        .map(|(path, act)| (path.clone(), *act))
        .collect();
    for (path, act) in blocked {
        plan.acts.remove(&path);
        let (here, there) =
            if act == Act::Send { (Deed::New, Deed::Changed) } else { (Deed::Changed, Deed::New) };
        plan.clashes.push(Clash { path, here, there });
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
