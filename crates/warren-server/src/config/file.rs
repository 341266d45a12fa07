use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_norway::Value;

use super::assigned::{Assigned, nearest};
use super::error::{ConfigError, Origin};
use super::sections::SECTIONS;

/// No configuration is longer.
const LONGEST: u64 = 1 << 20;

/// Takes over every setting of a file.
pub(super) fn read(path: &Path, assigned: &mut Assigned) -> Result<(), ConfigError> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LONGEST).read_to_string(&mut text))
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    take_over(path, &text, assigned)
}

pub(super) fn take_over(path: &Path, text: &str, assigned: &mut Assigned) -> Result<(), ConfigError> {
    let document: Value = serde_norway::from_str(text)
        .map_err(|source| ConfigError::Syntax { path: path.to_owned(), source })?;
    let places = Places { path: path.to_owned(), lines: lines(text) };
    let sections = match document {
        Value::Null => return Ok(()),
        Value::Mapping(sections) => sections,
        _ => return Err(ConfigError::Section { key: "(the file)".to_owned(), origin: places.of("") }),
    };
    for (name, settings) in &sections {
        let name = name.as_str().unwrap_or("?");
        let origin = places.of(name);
        if !SECTIONS.iter().any(|(known, _)| *known == name) {
            return Err(ConfigError::Unknown { key: name.to_owned(), nearest: nearest(name), origin });
        }
        let settings = match settings {
            Value::Null => continue,
            Value::Mapping(settings) => settings,
            _ => return Err(ConfigError::Section { key: name.to_owned(), origin }),
        };
        for (setting, value) in settings {
            let key = format!("{name}.{}", setting.as_str().unwrap_or("?"));
            let origin = places.of(&key);
            assigned.set(&key, value.clone(), origin)?;
        }
    }
    Ok(())
}

/// Where in a file each setting stands.
struct Places {
    path: PathBuf,
    lines: HashMap<String, usize>,
}

impl Places {
    fn of(&self, key: &str) -> Origin {
        Origin::File { path: self.path.clone(), line: self.lines.get(key).copied() }
    }
}

/// The line of each key. The parser does not tell, so this follows indentation; what is written in
/// braces on one line is not found, and then the error names only the file.
fn lines(text: &str) -> HashMap<String, usize> {
    let mut found = HashMap::new();
    let mut above: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let Some((name, _)) = line.trim_start().split_once(':') else { continue };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || !name.bytes().all(is_name) {
            continue;
        }
        while above.last().is_some_and(|(other, _)| *other >= indent) {
            above.pop();
        }
        let path = above.last().map_or_else(|| name.to_owned(), |(_, parent)| format!("{parent}.{name}"));
        found.entry(path.clone()).or_insert(index + 1);
        above.push((indent, path));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_where_they_stand() {
        let text = "# a comment\nhttp:\n  max_body: 2MiB\n\nchats:\n  env:\n    A: b\n  port: 9000\n";
        let lines = lines(text);
        assert_eq!((lines["http.max_body"], lines["chats.env"], lines["chats.port"]), (3, 6, 8));
    }

    #[test]
    fn an_unknown_setting_is_refused_with_its_line_and_its_neighbour() {
        let error = take_over(Path::new("w.yaml"), "http:\n  max_bdy: 1\n", &mut Assigned::default());
        let text = error.unwrap_err().to_string();
        assert_eq!(text, "w.yaml:2: there is no setting `http.max_bdy`, did you mean `http.max_body`?");
    }

    #[test]
    fn whatever_is_not_a_table_of_tables_is_refused() {
        for text in [
            "- a\n",
            "just words\n",
            "http: 5\n",
            "http: [1]\n",
            "{1: 2}\n",
            "http:\n  2: 3\n",
            "a: &b [*b]\n",
        ] {
            assert!(take_over(Path::new("w"), text, &mut Assigned::default()).is_err(), "{text}");
        }
        let twice = "http:\n  max_body: 1MiB\n  max_body: 2MiB\n";
        assert!(take_over(Path::new("w"), twice, &mut Assigned::default()).is_err());
        assert!(take_over(Path::new("w"), "", &mut Assigned::default()).is_ok());
    }
}
