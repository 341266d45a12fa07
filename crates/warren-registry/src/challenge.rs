//! The header `WWW-Authenticate`, in which a registry says what it wants to see.

/// One way to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A name and a password.
    Basic,
    /// A token, and where to get one.
    Bearer { realm: String, service: Option<String> },
}

/// The first way in a header that is understood.
pub(crate) fn read(header: &str) -> Option<Challenge> {
    let (scheme, rest) = header.trim().split_once(' ').unwrap_or_else(|| (header.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let parameters = parameters(rest);
    let value = |name: &str| {
        let found = parameters.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    };
    Some(Challenge::Bearer { realm: value("realm")?, service: value("service") })
}

/// `name=value` or `name="value"`, with commas between.
fn parameters(mut text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some((name, rest)) = text.split_once('=') {
        let name = name.trim_matches([' ', ',', '\t']).to_owned();
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        found.push((name, value));
        text = rest;
    }
    found
}

/// A quoted text from after its first quote, and what follows it.
fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            _ => value.push(letter),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        let read_hub = Challenge::Bearer {
            realm: "https://auth.docker.io/token".to_owned(),
            service: Some("registry.docker.io".to_owned()),
        };
        assert_eq!(read(hub), Some(read_hub));
        assert_eq!(read(r#"Basic realm="x""#), Some(Challenge::Basic));
        assert_eq!(read("basic"), Some(Challenge::Basic));
        let odd = read(r#"bearer Realm = x , service="a\"b""#);
        assert_eq!(odd, Some(Challenge::Bearer { realm: "x".to_owned(), service: Some("a\"b".to_owned()) }));
        for none in ["", "Negotiate", "Bearer", "Bearer service=x", r#"Bearer realm="""#] {
            assert_eq!(read(none), None, "{none}");
        }
        for broken in
            ["Bearer realm=\"", "Bearer =", "Bearer ===", "Bearer realm=\"é\\", "Bearer a=\"b\"c=\""]
        {
            read(broken);
        }
    }
}
