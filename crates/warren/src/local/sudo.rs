//! The command that was typed, as root would have to type it.

use std::ffi::OsString;

/// Variables that the command reads and sudo drops unless told not to.
const VARIABLES: [&str; 5] =
    ["WARREN_DATA_DIR", "WARREN_URL", "WARREN_API_KEY", "WARREN_CA", "WARREN_CONTEXT"];

/// Longer commands are cut short.
const MOST_CHARACTERS: usize = 200;

pub(crate) fn this_command() -> String {
    let set: Vec<&str> = VARIABLES.into_iter().filter(|name| std::env::var_os(name).is_some()).collect();
    command(std::env::args_os(), &set)
}

/// Another command of this program, as root would type it.
pub(crate) fn command_of(words: &str) -> String {
    let program = std::env::args_os().next().map_or_else(|| "warren".to_owned(), |name| quoted(&name));
    format!("sudo {program} {words}")
}

fn command(arguments: impl Iterator<Item = OsString>, variables: &[&str]) -> String {
    let mut words = vec!["sudo".to_owned()];
    if !variables.is_empty() {
        words.push(format!("--preserve-env={}", variables.join(",")));
    }
    let first = words.len();
    words.extend(arguments.map(|word| quoted(&word)));
    let whole = words.join(" ");
    if whole.chars().count() <= MOST_CHARACTERS {
        return whole;
    }
    words.truncate(first + 2);
    words.push("…".to_owned());
    words.join(" ")
}

/// Quotes a word for the shell where it needs that.
fn quoted(word: &OsString) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(words: &[&str]) -> String {
        command(words.iter().map(OsString::from), &[])
    }

    #[test]
    fn it_can_be_typed_as_it_is_shown() {
        assert_eq!(given(&["warren", "run", "--", "true"]), "sudo warren run -- true");
        assert_eq!(
            given(&["./warren", "run", "--", "sh", "-c", "echo it's"]),
            "sudo ./warren run -- sh -c 'echo it'\\''s'"
        );
        assert_eq!(given(&["warren", ""]), "sudo warren ''");
    }

    #[test]
    fn what_sudo_would_drop_is_kept() {
        let words = ["warren", "ls"].map(OsString::from).into_iter();
        assert_eq!(command(words, &["WARREN_DATA_DIR"]), "sudo --preserve-env=WARREN_DATA_DIR warren ls");
    }

    #[test]
    fn a_long_one_is_cut_short() {
        assert_eq!(given(&["warren", "run", &"x".repeat(300)]), "sudo warren run …");
    }
}
