//! A history of snapshots as lines. The main line stays in its column; branches stand to the right,
//! before the column goes on.

use std::collections::HashMap;

/// A snapshot, as far as its place in the tree matters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'a> {
    pub(crate) id: &'a str,
    /// A parent that is not among the nodes counts as none.
    pub(crate) parent: Option<&'a str>,
}

/// A line of the picture.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The index of the node that it shows.
    pub(crate) node: usize,
    /// The drawing before it.
    pub(crate) lead: String,
}

/// Draws nodes, given the oldest first. The column goes on towards `here`; elsewhere towards the
/// newest.
pub(crate) fn draw(nodes: &[Node<'_>], here: Option<&str>) -> Vec<Line> {
    let at: HashMap<&str, usize> = nodes.iter().enumerate().map(|(index, node)| (node.id, index)).collect();
    let parent_of = |index: usize| nodes.get(index)?.parent.and_then(|parent| at.get(parent)).copied();
    let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut roots = Vec::new();
    for index in 0..nodes.len() {
        match parent_of(index) {
            Some(parent) if parent != index => children.entry(parent).or_default().push(index),
            _ => roots.push(index),
        }
    }
    let mut on_the_way = vec![false; nodes.len()];
    let mut next = here.and_then(|here| at.get(here)).copied();
    while let Some(index) = next {
        match on_the_way.get_mut(index) {
            Some(seen) if !*seen => *seen = true,
            _ => break,
        }
        next = parent_of(index);
    }
    let mut lines = Vec::with_capacity(nodes.len());
    let mut waiting: Vec<(usize, String, String)> =
        roots.into_iter().rev().map(|root| (root, String::new(), String::new())).collect();
    while let Some((node, lead, column)) = waiting.pop() {
        let mut below = children.remove(&node).unwrap_or_default();
        let straight = below
            .iter()
            .position(|child| on_the_way.get(*child).copied().unwrap_or(false))
            .unwrap_or_else(|| below.len().saturating_sub(1));
        if straight < below.len() {
            let straight = below.remove(straight);
            waiting.push((straight, column.clone(), column.clone()));
        }
        for branch in below.into_iter().rev() {
            waiting.push((branch, format!("{column}├─"), format!("{column}│ ")));
        }
        lines.push(Line { node, lead });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(nodes: &[(&str, Option<&str>)], here: Option<&str>) -> String {
        let nodes: Vec<Node<'_>> = nodes.iter().map(|(id, parent)| Node { id, parent: *parent }).collect();
        let lines = draw(&nodes, here);
        lines.iter().map(|line| format!("{}{}\n", line.lead, nodes[line.node].id)).collect()
    }

    #[test]
    fn a_straight_history_is_one_column() {
        let nodes = [("a", None), ("b", Some("a")), ("c", Some("b"))];
        assert_eq!(picture(&nodes, Some("c")), "a\nb\nc\n");
    }

    #[test]
    fn branches_stand_before_the_column_goes_on_to_where_one_is() {
        let nodes = [
            ("a", None),
            ("b", Some("a")),
            ("c", Some("b")),
            ("d", Some("a")),
            ("e", Some("b")),
            ("f", Some("c")),
        ];
        assert_eq!(picture(&nodes, Some("f")), "a\n├─d\nb\n├─e\nc\nf\n");
        assert_eq!(picture(&nodes, Some("d")), "a\n├─b\n│ ├─c\n│ │ f\n│ e\nd\n");
    }

    #[test]
    fn without_a_place_the_newest_child_goes_straight_on() {
        let nodes = [("a", None), ("b", Some("a")), ("c", Some("a"))];
        assert_eq!(picture(&nodes, None), "a\n├─b\nc\n");
        assert_eq!(picture(&nodes, Some("elsewhere")), "a\n├─b\nc\n");
    }

    #[test]
    fn a_parent_that_is_elsewhere_makes_a_root() {
        let nodes = [("a", Some("of another sandbox")), ("b", Some("a")), ("x", None)];
        assert_eq!(picture(&nodes, Some("b")), "a\nb\nx\n");
    }

    #[test]
    fn a_long_history_is_drawn_without_growing_to_the_right() {
        let names: Vec<String> = (0..5000).map(|number| number.to_string()).collect();
        let nodes: Vec<Node<'_>> = names
            .iter()
            .enumerate()
            .map(|(index, id)| Node { id, parent: index.checked_sub(1).map(|before| names[before].as_str()) })
            .collect();
        let lines = draw(&nodes, Some("4999"));
        assert_eq!(lines.len(), 5000);
        assert!(lines.iter().all(|line| line.lead.is_empty()));
    }
}
