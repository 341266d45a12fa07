//! The check whether a directory of the host may be mounted in a sandbox.

use std::path::{Component, Path, PathBuf};

use warren_core::{MountRefusal, MountSource};

/// The real path of a mount's source, if it is inside an allowed directory. For a path outside,
/// the refusal does not tell whether it exists.
pub(super) fn source(allowed: &[PathBuf], asked: &Path) -> Result<MountSource, MountRefusal> {
    let Ok(real) = asked.canonicalize() else {
        let plain = asked.components().all(|part| part != Component::ParentDir);
        let known = plain && allowed.iter().any(|root| asked.starts_with(root));
        return Err(if known { MountRefusal::Missing } else { MountRefusal::NotAllowed });
    };
    let mut roots = allowed.iter().filter_map(|root| root.canonicalize().ok());
    if !roots.any(|root| real.starts_with(root)) {
        return Err(MountRefusal::NotAllowed);
    }
    Ok(MountSource { is_directory: real.is_dir(), path: real })
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    use super::*;

    fn word(result: Result<MountSource, MountRefusal>) -> String {
        match result {
            Ok(source) => source.path.file_name().unwrap().to_string_lossy().into_owned(),
            Err(MountRefusal::NotAllowed) => "not allowed".to_owned(),
            Err(MountRefusal::Missing) => "missing".to_owned(),
        }
    }

    #[test]
    fn only_what_really_is_below_an_allowed_directory_passes() {
        let scratch = tempfile::tempdir().unwrap();
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
            ("open/file", "file"),
            ("closed/in", "chat"),
            ("open/out", "not allowed"),
            ("openness", "not allowed"),
            ("closed/secret", "not allowed"),
            ("closed/nothing", "not allowed"),
            ("open/nothing", "missing"),
            ("open/../closed/secret", "not allowed"),
            ("open/../closed/nothing", "not allowed"),
            ("closed/../open/chat/", "chat"),
        ];
        for (path, expected) in cases {
            assert_eq!(word(source(&roots, &root.join(path))), expected, "{path}");
        }
        assert_eq!(word(source(&[], &root.join("open/chat"))), "not allowed");
    }
}
