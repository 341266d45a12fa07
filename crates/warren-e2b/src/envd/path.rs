/// A path as a client writes it, without anything looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// Absolute, and clean.
    Absolute(String),
    /// From the user's home on, and clean; the home itself is `.`.
    AtHome(String),
    /// Nothing was written: wherever the sandbox works by default.
    Nowhere,
}

/// Why a text names no path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    #[error("the path contains a NUL byte")]
    Nul,
    #[error("`~` is the user's own home: another user's home is named by its path")]
    AnothersHome,
}

impl Named {
    /// `~` is the home where a path begins with it, and nothing special anywhere else.
    pub(crate) fn read(text: &str) -> Result<Self, PathError> {
        if text.contains('\0') {
            return Err(PathError::Nul);
        }
        if text.is_empty() {
            return Ok(Self::Nowhere);
        }
        if text.starts_with('/') {
            return Ok(Self::Absolute(clean(text)));
        }
        match text.strip_prefix('~') {
            None => Ok(Self::AtHome(clean(text))),
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                Ok(Self::AtHome(clean(rest.trim_start_matches('/'))))
            }
            Some(_) => Err(PathError::AnothersHome),
        }
    }

    /// As the agent takes it, which begins at the user's home by itself. `default` is where nothing
    /// is.
    pub(crate) fn or(self, default: &str) -> String {
        match self {
            Self::Absolute(path) | Self::AtHome(path) => path,
            Self::Nowhere => default.to_owned(),
        }
    }
}

/// Takes out doubled slashes, `.` and `..`, by the text alone.
pub(crate) fn clean(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, parts.last()) {
            ("..", Some(&"..")) => parts.push(part),
            ("..", Some(_)) => drop(parts.pop()),
            ("..", None) if absolute => {}
            _ => parts.push(part),
        }
    }
    match (absolute, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

/// The last part of a clean absolute path.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("/")
}

/// The directory that holds a clean path.
pub(crate) fn parent_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((parent, _)) => parent,
        None => ".",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_the_root_or_at_home() {
        let at_home = |text: &str| Ok(Named::AtHome(text.to_owned()));
        assert_eq!(Named::read("/a//b/./c/../d/"), Ok(Named::Absolute("/a/b/d".to_owned())));
        assert_eq!(Named::read("/../.."), Ok(Named::Absolute("/".to_owned())));
        assert_eq!(Named::read("a/b"), at_home("a/b"));
        assert_eq!((Named::read("~"), Named::read("~/")), (at_home("."), at_home(".")));
        assert_eq!((Named::read("~/x"), Named::read("~//x/~")), (at_home("x"), at_home("x/~")));
        assert_eq!((Named::read("../x"), Named::read("a/../../x")), (at_home("../x"), at_home("../x")));
        assert_eq!(Named::read(""), Ok(Named::Nowhere));
        assert_eq!(Named::read("~root/x"), Err(PathError::AnothersHome));
        assert_eq!(Named::read("a\0b"), Err(PathError::Nul));
    }

    #[test]
    fn a_clean_path_stays_as_it_is_and_has_a_name_and_a_parent() {
        for (path, parent, name) in
            [("/a/b", "/a", "b"), ("/a", "/", "a"), ("/", "/", "/"), ("a/b", "a", "b"), ("a", ".", "a")]
        {
            assert_eq!((clean(path).as_str(), parent_of(path), name_of(path)), (path, parent, name));
        }
    }
}
