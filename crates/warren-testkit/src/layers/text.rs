use warren_core::TextDiff;

const CONTEXT: usize = 3;

/// How two contents differ, line by line: one hunk from the first line that differs to the last.
pub(super) fn compare(before: Option<&[u8]>, after: Option<&[u8]>, most_bytes: u64) -> TextDiff {
    if before == after {
        return TextDiff::Same;
    }
    let [before, after] = [before, after].map(Option::unwrap_or_default);
    if [before, after].iter().any(|side| side.len() as u64 > most_bytes) {
        return TextDiff::TooLarge;
    }
    match [before, after].map(|side| std::str::from_utf8(side).ok().filter(|text| !text.contains('\0'))) {
        [Some(before), Some(after)] => TextDiff::Unified(hunk(before, after)),
        _ => TextDiff::Binary,
    }
}

fn hunk(before: &str, after: &str) -> String {
    let [before, after] = [before, after].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let rest = before.len().min(after.len()) - same;
    let tail = before.iter().rev().zip(after.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(CONTEXT);
    let trailing = tail.min(CONTEXT);
    let count = |side: &[&str]| side.len() - tail + trailing - from;
    let start = |side: &[&str]| if count(side) == 0 { from } else { from + 1 };
    let mut text =
        format!("@@ -{},{} +{},{} @@\n", start(&before), count(&before), start(&after), count(&after));
    let mut say = |mark: char, lines: &[&str]| {
        for line in lines {
            text.push(mark);
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    };
    say(' ', &before[from..same]);
    say('-', &before[same..before.len() - tail]);
    say('+', &after[same..after.len() - tail]);
    say(' ', &before[before.len() - tail..before.len() - tail + trailing]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unified(before: &str, after: &str) -> String {
        match compare(Some(before.as_bytes()), Some(after.as_bytes()), 1000) {
            TextDiff::Unified(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_changed_line_is_told_with_its_neighbours() {
        let text = unified("a\nb\nc\nd\ne\nf\ng\nh\n", "a\nb\nc\nd\nE\nf\ng\nh\n");
        assert_eq!(text, "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n");
    }

    #[test]
    fn a_missing_last_newline_is_said() {
        assert_eq!(unified("", "a"), "@@ -0,0 +1,1 @@\n+a\n\\ No newline at end of file\n");
        assert_eq!(unified("a\na\n", "a\n"), "@@ -1,2 +1,1 @@\n a\n-a\n");
    }

    #[test]
    fn what_is_no_text_or_too_long_is_not_compared() {
        assert_eq!(compare(Some(b"\0"), None, 10), TextDiff::Binary);
        assert_eq!(compare(Some(b"long"), None, 3), TextDiff::TooLarge);
        assert_eq!(compare(None, None, 3), TextDiff::Same);
    }
}
