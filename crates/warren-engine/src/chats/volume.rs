use std::path::{Component, Path, PathBuf};

use crate::error::{Field, Wording};
use crate::{ChatError, EngineError};

/// Where a chat's volume really is, if that is inside a directory that may be mounted. Outside of those nothing is said of what
/// exists. Blocks.
pub(super) fn allowed(allowed: &[PathBuf], asked: &Path) -> Result<PathBuf, ChatError> {
    let bytes = asked.as_os_str().as_encoded_bytes();
    if !asked.is_absolute() || bytes.contains(&0) || bytes.len() > 4095 {
        return Err(invalid("is not an absolute path"));
    }
    let Ok(real) = asked.canonicalize() else {
        let plain = asked.components().all(|part| part != Component::ParentDir);
        let known = plain && allowed.iter().any(|root| asked.starts_with(root));
        return Err(if known { invalid("does not exist") } else { ChatError::VolumeNotAllowed });
    };
    if !allowed.iter().filter_map(|root| root.canonicalize().ok()).any(|root| real.starts_with(root)) {
        return Err(ChatError::VolumeNotAllowed);
    }
    if !real.is_dir() || real.to_str().is_none() {
        return Err(invalid("is not a directory with a readable name"));
    }
    Ok(real)
}

fn invalid(message: &str) -> ChatError {
    EngineError::invalid(Field::Volume, Wording::Predicate(message.to_owned())).into()
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    use warren_testkit::ScratchData;

    use super::*;

    fn word(result: Result<PathBuf, ChatError>) -> String {
        match result {
            Ok(path) => path.file_name().unwrap().to_string_lossy().into_owned(),
            Err(ChatError::VolumeNotAllowed) => "not allowed".to_owned(),
            Err(ChatError::Engine(EngineError::Invalid { .. })) => "invalid".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn only_directories_that_really_are_below_an_allowed_one_pass() {
        let scratch = ScratchData::new().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        create_dir_all(root.join("open/chat")).unwrap();
        create_dir_all(root.join("openness")).unwrap();
        create_dir_all(root.join("closed/secret")).unwrap();
        write(root.join("open/file"), "").unwrap();
        symlink(root.join("closed/secret"), root.join("open/out")).unwrap();
        symlink(root.join("open/chat"), root.join("closed/in")).unwrap();
        let roots = [root.join("open")];
        let cases = [
            ("open/chat", "chat"),
            ("open", "open"),
            ("closed/in", "chat"),
            ("open/out", "not allowed"),
            ("openness", "not allowed"),
            ("closed/secret", "not allowed"),
            ("closed/nothing", "not allowed"),
            ("open/nothing", "invalid"),
            ("open/file", "invalid"),
            ("open/../closed/secret", "not allowed"),
            ("open/../closed/nothing", "not allowed"),
            ("closed/../open/chat/", "chat"),
        ];
        for (path, expected) in cases {
            assert_eq!(word(allowed(&roots, &root.join(path))), expected, "{path}");
        }
        assert_eq!(word(allowed(&roots, Path::new("open/chat"))), "invalid");
        assert_eq!(word(allowed(&[], &root.join("open/chat"))), "not allowed");
    }
}
