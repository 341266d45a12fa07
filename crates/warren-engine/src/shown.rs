//! Commands and actions as people are shown them.

use warren_core::{Action, FileDeed};
use warren_wire::guest::ByteString;

/// Bytes of a command or of parameters that the journal shows.
const SHOWN_BYTES: usize = 4096;

/// An action in a line; `None` for one that is nobody's work.
pub(crate) fn in_a_line(action: &Action) -> Option<String> {
    let line = match action {
        Action::Exec { command, .. } | Action::Terminal { command, .. } => command.clone(),
        Action::Tool { tool, summary, .. } => format!("{tool} {summary}"),
        Action::Files { operation, path, .. } => {
            let word = match operation {
                FileDeed::Write => "write",
                FileDeed::Unpack => "unpack",
                FileDeed::MakeDirectory => "mkdir",
                FileDeed::Rename => "mv",
                FileDeed::Remove => "rm",
                FileDeed::SetPermissions => "chmod",
                FileDeed::SetOwner => "chown",
                FileDeed::MakeSymlink => "ln",
                FileDeed::SetAttributes => "setattr",
            };
            format!("{word} {path}")
        }
        Action::Turn | Action::Rollback { .. } | Action::Move { .. } | Action::Promote { .. } => {
            return None;
        }
    };
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A command as one would type it, cut where it gets long. Its environment is not told.
pub(crate) fn as_typed(argv: &[ByteString]) -> String {
    let mut text = String::new();
    for word in argv {
        if text.len() > SHOWN_BYTES {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        // No more of a word than could be shown is even looked at.
        let bytes = word.as_bytes();
        let word = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES + 4)]);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./=:,@%+".contains(&byte);
        if !word.is_empty() && word.bytes().all(plain) {
            text.push_str(&word);
        } else {
            text.push('\'');
            text.push_str(&word.replace('\'', r"'\''"));
            text.push('\'');
        }
    }
    cut(&text)
}

/// No more than the journal shows.
pub(crate) fn cut(text: &str) -> String {
    if text.len() <= SHOWN_BYTES {
        return text.to_owned();
    }
    let end = (0..=SHOWN_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let argv = ["sh", "-c", "echo 'a b' > /tmp/x", "", "plain-word"].map(ByteString::from);
        assert_eq!(as_typed(&argv), r"sh -c 'echo '\''a b'\'' > /tmp/x' '' plain-word");
    }

    #[test]
    fn a_long_command_is_cut_between_characters() {
        let text = as_typed(&["echo".into(), "ä".repeat(9000).into()]);
        assert!(text.len() <= SHOWN_BYTES + '…'.len_utf8() && text.ends_with("ä…"), "{}", text.len());
        let many = vec![ByteString::from("word"); 100_000];
        assert!(as_typed(&many).len() <= SHOWN_BYTES + '…'.len_utf8());
    }
}
