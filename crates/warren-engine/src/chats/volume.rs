use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_core::{Isolation, MountRefusal};

use crate::error::Field;
use crate::{ChatError, Engine, EngineError};

impl Engine {
    /// Where a chat's volume really is, if the first backend that mounts directories of the host
    /// may mount it.
    pub(super) async fn chat_volume(&self, asked: PathBuf) -> Result<PathBuf, ChatError> {
        let mut backends = self.shared.backends.iter();
        let backend = backends.find(|backend| backend.port.capabilities().host_mounts);
        let backend = backend.ok_or(ChatError::VolumeNotAllowed)?;
        let port = Arc::clone(&backend.port);
        backend.ask(move || allowed(port.as_ref(), &asked)).await
    }
}

fn allowed(backend: &dyn Isolation, asked: &Path) -> Result<PathBuf, ChatError> {
    let bytes = asked.as_os_str().as_encoded_bytes();
    if !asked.is_absolute() || bytes.contains(&0) || bytes.len() > 4095 {
        return Err(invalid("is not an absolute path"));
    }
    let real = backend.mount_source(asked).map_err(|refusal| match refusal {
        MountRefusal::Missing => invalid("does not exist"),
        MountRefusal::NotAllowed => ChatError::VolumeNotAllowed,
    })?;
    if !real.is_directory || real.path.to_str().is_none() {
        return Err(invalid("is not a directory with a readable name"));
    }
    Ok(real.path)
}

fn invalid(message: &str) -> ChatError {
    EngineError::predicate(Field::Volume, message).into()
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use warren_testkit::{FakeIsolation, ScratchData};

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
    fn only_directories_that_the_backend_may_mount_pass() {
        let scratch = ScratchData::new().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        create_dir_all(root.join("open/chat")).unwrap();
        create_dir_all(root.join("closed/secret")).unwrap();
        write(root.join("open/file"), "").unwrap();
        let backend = FakeIsolation::new();
        backend.allow_mounts(vec![root.join("open")]);
        let cases = [
            ("open/chat", "chat"),
            ("closed/secret", "not allowed"),
            ("closed/nothing", "not allowed"),
            ("open/nothing", "invalid"),
            ("open/file", "invalid"),
        ];
        for (path, expected) in cases {
            assert_eq!(word(allowed(backend.as_ref(), &root.join(path))), expected, "{path}");
        }
        assert_eq!(word(allowed(backend.as_ref(), Path::new("open/chat"))), "invalid");
    }
}
