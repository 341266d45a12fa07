use std::collections::BTreeMap;
use std::path::PathBuf;

use warren_core::{ChangeKind, Conflict, Conflicts, MergeOrder};

use crate::delta::{Delta, Node, Nodes};

/// The result of a merge, file by file.
pub(super) struct Joined {
    pub(super) result: Nodes,
    pub(super) conflicts: Vec<Conflict>,
}

pub(super) fn join(base: &Nodes, ours: &Nodes, theirs: &Nodes, order: &MergeOrder<'_>) -> Joined {
    let mut result = ours.clone();
    let mut conflicts = Vec::new();
    let mine = Delta::between(base, ours).0;
    let theirs_changed = Delta::between(base, theirs).0.into_iter();
    for (path, wanted) in theirs_changed.filter(|(path, _)| path.starts_with(order.below)) {
        let settled = match mine.get(&path) {
            None => true,
            Some(found) if *found == wanted => true,
            Some(found) => {
                conflicts.push(Conflict {
                    ours: kind(base, &path, found.as_ref()),
                    theirs: kind(base, &path, wanted.as_ref()),
                    path: path.clone(),
                });
                order.conflicts == Conflicts::Theirs
            }
        };
        if settled {
            match wanted {
                Some(node) => drop(result.insert(path, node)),
                None => drop(result.remove(&path)),
            }
        }
    }
    make_whole(&mut result);
    Joined { result, conflicts }
}

fn kind(base: &Nodes, path: &PathBuf, found: Option<&Node>) -> ChangeKind {
    match (base.contains_key(path), found) {
        (false, _) => ChangeKind::Added,
        (true, None) => ChangeKind::Removed,
        (true, Some(_)) => ChangeKind::Changed,
    }
}

/// Keeps directories that still have files.
fn make_whole(nodes: &mut Nodes) {
    let parents: BTreeMap<PathBuf, Node> = nodes
        .keys()
        .flat_map(|path| path.ancestors().skip(1))
        .map(|parent| (parent.to_owned(), Node::directory()))
        .collect();
    for (parent, directory) in parents {
        nodes.entry(parent).or_insert(directory);
    }
}
