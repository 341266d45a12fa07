use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use tar::{Archive, Entry, EntryType};
use tokio::runtime::Handle;
use warren_core::FileDeed;
use warren_engine::{EngineError, FileWork, WorkKind};
use warren_face::auth::Caller;
use warren_face::error::{ApiError, Code};
use warren_face::transfer::{self, Incoming};
use warren_wire::api;
use warren_wire::guest::{ByteString, FileCall, FileOperation, WriteMode};

use super::named;
use crate::convert;
use crate::extract::{Json, Params, SandboxPath};
use crate::state::AppState;

/// Bytes that are read of a file at a time.
const PIECE: usize = 256 << 10;

/// Unpacks a tar file below a directory as it arrives. It is one thing to the journal, and one
/// undo.
pub(crate) async fn unpack(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    params: Params,
    body: Body,
) -> Result<Json<api::Unpacked>, ApiError> {
    let (target, user) = (named(&params, "path")?, convert::user(params.text("user"))?);
    let engine = state.engine.clone();
    let place = engine.as_(&caller).place_for(WorkKind::Transfer).await?;
    let work = sandbox.files().begin(FileDeed::Unpack, &target.to_text(), None).await?;
    let most = state.config.http.max_upload.0;
    let (source, outcome) = Incoming::new(transfer::reader(body), most, move || engine.check_disk());
    let unpacking = Unpacking { work, runtime: Handle::current(), target, user };
    let unpacked = place.work(move || unpacking.all(source));
    match unpacked.await.map_err(ApiError::internal)? {
        Ok(unpacked) => Ok(Json(unpacked)),
        Err(error) => Err(outcome.blame(error)),
    }
}

/// Why an archive is not unpacked, or not to its end.
#[derive(Debug, thiserror::Error)]
enum UnpackError {
    #[error("the body is not a tar file, or not all of it: {0}")]
    Archive(#[from] io::Error),
    #[error("the archive names a file that is not below its own directory: `{0}`")]
    Elsewhere(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<UnpackError> for ApiError {
    fn from(error: UnpackError) -> Self {
        match error {
            UnpackError::Engine(error) => error.into(),
            UnpackError::Archive(_) | UnpackError::Elsewhere(_) => {
                Self::new(Code::InvalidRequest, error.to_string())
            }
        }
    }
}

/// An archive that is unpacked, on a thread that may wait.
struct Unpacking {
    work: FileWork,
    runtime: Handle,
    target: ByteString,
    user: Option<ByteString>,
}

impl Unpacking {
    fn all(self, source: impl Read) -> Result<api::Unpacked, UnpackError> {
        let mut unpacked = api::Unpacked::default();
        self.make_directory(self.target.clone())?;
        let mut archive = Archive::new(source);
        for entry in archive.entries()? {
            self.one(entry?, &mut unpacked)?;
        }
        self.work.done();
        Ok(unpacked)
    }

    fn one(&self, mut entry: Entry<'_, impl Read>, unpacked: &mut api::Unpacked) -> Result<(), UnpackError> {
        let path = self.below(&entry.path()?)?;
        match entry.header().entry_type() {
            EntryType::Directory => self.make_directory(path)?,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let permissions = entry.header().mode()? & 0o777;
                unpacked.bytes += self.write(path, permissions, entry.size(), &mut entry)?;
                unpacked.files += 1;
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned().into();
                self.change(FileOperation::MakeSymlink { path, target })?;
                unpacked.files += 1;
            }
            _ => unpacked.left_out += 1,
        }
        Ok(())
    }

    /// Where a name of the archive belongs.
    fn below(&self, name: &Path) -> Result<ByteString, UnpackError> {
        let mut path = self.target.as_bytes().to_vec();
        for part in name.components() {
            match part {
                Component::CurDir => {}
                Component::Normal(name) => {
                    if path.last() != Some(&b'/') {
                        path.push(b'/');
                    }
                    path.extend_from_slice(name.as_bytes());
                }
                _ => return Err(UnpackError::Elsewhere(name.to_string_lossy().into_owned())),
            }
        }
        Ok(path.into())
    }

    fn make_directory(&self, path: ByteString) -> Result<(), UnpackError> {
        self.change(FileOperation::MakeDirectory { path, permissions: None, parents: true })
    }

    fn change(&self, operation: FileOperation) -> Result<(), UnpackError> {
        Ok(self.runtime.block_on(self.work.change(self.call(operation)))?)
    }

    fn write(
        &self,
        path: ByteString,
        permissions: u32,
        size: u64,
        content: &mut impl Read,
    ) -> Result<u64, UnpackError> {
        let (mode, permissions) = (WriteMode::Replace, Some(permissions));
        let call = self.call(FileOperation::Write { path, mode, permissions, parents: true });
        let mut file = self.runtime.block_on(self.work.write(call))?;
        let mut left = size;
        loop {
            let mut piece = Vec::with_capacity(PIECE);
            content.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
            if piece.is_empty() && left > 0 {
                // The archive's reader would only notice at the next file, and this one is not
                // whole.
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            left = left.saturating_sub(piece.len() as u64);
            if piece.is_empty() {
                return Ok(self.runtime.block_on(file.finish())?);
            }
            self.runtime.block_on(file.write(Bytes::from(piece)))?;
        }
    }

    fn call(&self, operation: FileOperation) -> FileCall {
        FileCall { user: self.user.clone(), operation, as_root: None }
    }
}
