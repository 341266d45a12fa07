use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp};

const PATIENCE: Duration = Duration::from_secs(1);

/// Lines of the base that one side replaced by lines of its own.
#[derive(Debug)]
struct Hunk {
    base: Range<usize>,
    side: Range<usize>,
}

/// Joins what two sides made of a text. None where both changed the same lines, or lines next to
/// each other, differently.
pub(super) fn merge_lines(base: &str, ours: &str, theirs: &str) -> Option<String> {
    let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<_>>();
    let (base, ours, theirs) = (lines(base), lines(ours), lines(theirs));
    let (our_hunks, their_hunks) = (hunks(&base, &ours), hunks(&base, &theirs));
    let (mut left, mut right) = (our_hunks.as_slice(), their_hunks.as_slice());
    let mut merged = String::new();
    let mut at = 0;
    while let Some(start) = [left, right].iter().filter_map(|hunks| Some(hunks.first()?.base.start)).min() {
        merged.extend(base.get(at..start)?.iter().copied());
        // What overlaps or touches belongs together.
        let (mut end, mut taken) = (start, (0, 0));
        loop {
            let next = (reach(left, taken.0, &mut end), reach(right, taken.1, &mut end));
            if next == taken {
                break;
            }
            taken = next;
        }
        let original = base.get(start..end)?;
        let ours =
            side_of(left.get(..taken.0)?, &(start..end)).map_or(Some(original), |own| ours.get(own))?;
        let theirs =
            side_of(right.get(..taken.1)?, &(start..end)).map_or(Some(original), |own| theirs.get(own))?;
        let chosen = if ours == theirs || theirs == original {
            ours
        } else if ours == original {
            theirs
        } else {
            return None;
        };
        merged.extend(chosen.iter().copied());
        (left, right, at) = (left.get(taken.0..)?, right.get(taken.1..)?, end);
    }
    merged.extend(base.get(at..)?.iter().copied());
    Some(merged)
}

fn hunks(base: &[&str], side: &[&str]) -> Vec<Hunk> {
    let deadline = Instant::now() + PATIENCE;
    let ops = similar::capture_diff_slices_deadline(Algorithm::Myers, base, side, Some(deadline));
    let mut hunks: Vec<Hunk> = Vec::new();
    for op in ops {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let (base, side) = (op.old_range(), op.new_range());
        match hunks.last_mut() {
            Some(last) if last.base.end == base.start && last.side.end == side.start => {
                last.base.end = base.end;
                last.side.end = side.end;
            }
            _ => hunks.push(Hunk { base, side }),
        }
    }
    hunks
}

/// How many hunks begin before or at the end of a region, which grows with them.
fn reach(hunks: &[Hunk], mut taken: usize, end: &mut usize) -> usize {
    while let Some(hunk) = hunks.get(taken).filter(|hunk| hunk.base.start <= *end) {
        *end = hunk.base.end.max(*end);
        taken += 1;
    }
    taken
}

/// Where a side has a region of the base, given its hunks in that region. None if it has none: the
/// region is the base's.
fn side_of(hunks: &[Hunk], region: &Range<usize>) -> Option<Range<usize>> {
    let (first, last) = (hunks.first()?, hunks.last()?);
    Some(first.side.start - (first.base.start - region.start)..last.side.end + (region.end - last.base.end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::merge_lines;

    #[test]
    fn changes_of_different_lines_are_joined() {
        let merged = merge_lines("1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\nsix");
        assert_eq!(merged.as_deref(), Some("one\n2\n3\n4\nfive\nsix"));
    }

    #[test]
    fn changes_of_the_same_line_or_of_neighbours_conflict() {
        assert_eq!(merge_lines("1\n", "2\n", "3\n"), None);
        assert_eq!(merge_lines("1\n2\n", "one\n2\n", "1\ntwo\n"), None);
        assert_eq!(merge_lines("1\n2\n", "1\na\n2\n", "1\nb\n2\n"), None);
        assert_eq!(merge_lines("1\n2\n3\n", "1\n3\n", "1\ntwo\n3\n"), None);
    }

    #[test]
    fn the_same_change_on_both_sides_is_taken_once() {
        let merged = merge_lines("1\n2\n3\n4\n", "1\nx\n3\n4\n", "1\nx\n3\n4\n5\n");
        assert_eq!(merged.as_deref(), Some("1\nx\n3\n4\n5\n"));
    }

    #[test]
    fn a_lost_newline_at_the_end_is_a_change() {
        assert_eq!(merge_lines("1\n2\n3\n", "0\n1\n2\n3\n", "1\n2\n3").as_deref(), Some("0\n1\n2\n3"));
    }

    fn text() -> impl Strategy<Value = String> {
        ("([ab]\n){0,12}", prop_oneof![Just(""), Just("c")]).prop_map(|(lines, end)| lines + end)
    }

    proptest! {
        #[test]
        fn an_unchanged_side_leaves_the_other(base in text(), side in text()) {
            prop_assert_eq!(merge_lines(&base, &side, &base), Some(side.clone()));
            prop_assert_eq!(merge_lines(&base, &base, &side), Some(side));
        }

        #[test]
        fn equal_sides_never_conflict(base in text(), side in text()) {
            prop_assert_eq!(merge_lines(&base, &side, &side), Some(side));
        }

        #[test]
        fn it_does_not_matter_which_side_is_which(base in text(), ours in text(), theirs in text()) {
            prop_assert_eq!(merge_lines(&base, &ours, &theirs), merge_lines(&base, &theirs, &ours));
        }

        #[test]
        fn changes_far_apart_are_both_kept(before in text(), after in text(), ours in text(), theirs in text()) {
            let middle = "m1\nm2\nm3\n";
            let base = format!("{before}\n{middle}{after}");
            let merged = merge_lines(
                &base,
                &format!("{ours}\n{middle}{after}"),
                &format!("{before}\n{middle}{theirs}"),
            );
            prop_assert_eq!(merged, Some(format!("{ours}\n{middle}{theirs}")));
        }
    }
}
