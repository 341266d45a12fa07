//! Changes to files as the journal knows them: one call, or several that belong together for the
//! caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use warren_core::{Action, FileDeed, Outcome, Request};
use warren_wire::guest::{FileCall, FileOperation};

use super::{FileWriter, Files};
use crate::EngineError;
use crate::entry::Entry;
use crate::error::{Field, sentence};
use crate::guest::Guest;
use crate::shown::cut;

/// Calls that change files and are one entry of the journal. Dropped before [`FileWork::done`], the
/// entry says what failed, or that it was broken off.
#[derive(Debug)]
pub struct FileWork {
    guest: Guest,
    entry: Arc<Entry>,
    tally: Arc<Tally>,
    done: bool,
}

/// The results of the calls so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    files: AtomicU64,
    bytes: AtomicU64,
    /// The last call that failed, and why.
    failure: Mutex<Option<String>>,
}

impl Files {
    /// Begins changes that the journal tells as one. `to` is for what has two paths.
    pub async fn begin(&self, deed: FileDeed, path: &str, to: Option<&str>) -> Result<FileWork, EngineError> {
        let (path, to) = (cut(path), to.map(cut));
        self.begin_work(Action::Files { operation: deed, path, to, bytes: None, files: None }).await
    }

    /// Begins the change that is this call.
    pub(super) async fn begin_change(&self, call: &FileCall) -> Result<FileWork, EngineError> {
        let Some(action) = action_of(&call.operation) else {
            return Err(EngineError::invalid(Field::Operation, "the call changes nothing"));
        };
        self.begin_work(action).await
    }

    async fn begin_work(&self, action: Action) -> Result<FileWork, EngineError> {
        let entry = Arc::new(self.sandbox.enter(Request::WriteFiles).await?);
        entry.begin(action, None).await;
        let guest = entry.guest();
        Ok(FileWork { guest, entry, tally: Arc::default(), done: false })
    }
}

impl FileWork {
    /// A call without a result of its own.
    pub async fn change(&self, call: FileCall) -> Result<(), EngineError> {
        self.tally.noting(self.guest.change(call).await)
    }

    pub async fn write(&self, call: FileCall) -> Result<FileWriter, EngineError> {
        let mut writer = self.tally.noting(self.guest.write(call).await)?;
        writer.tally = Some(Arc::clone(&self.tally));
        Ok(writer)
    }

    /// All is done that was to be done; calls that failed on the way were part of it.
    pub fn done(mut self) {
        self.done = true;
    }
}

impl Drop for FileWork {
    fn drop(&mut self) {
        let (files, bytes) =
            (self.tally.files.load(Ordering::Relaxed), self.tally.bytes.load(Ordering::Relaxed));
        if files > 0 {
            self.entry.wrote(files, bytes);
        }
        let detail = match (self.done, self.tally.failure.lock().take()) {
            (true, _) => None,
            (false, Some(failure)) => Some(cut(&failure)),
            (false, None) => Some("it was broken off before its end".to_owned()),
        };
        self.entry.close(Outcome { exit_code: None, detail });
    }
}

impl Tally {
    /// Remembers a failure.
    pub(super) fn noting<T>(&self, outcome: Result<T, EngineError>) -> Result<T, EngineError> {
        if let Err(error) = &outcome {
            *self.failure.lock() = Some(sentence(error));
        }
        outcome
    }

    /// A file is written.
    pub(super) fn wrote(&self, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The journal's action for an operation; `None` for one that only reads.
fn action_of(operation: &FileOperation) -> Option<Action> {
    let (deed, path, to) = match operation {
        FileOperation::Write { path, .. } => (FileDeed::Write, path, None),
        FileOperation::MakeDirectory { path, .. } => (FileDeed::MakeDirectory, path, None),
        FileOperation::Rename { from, to } => (FileDeed::Rename, from, Some(to)),
        FileOperation::Remove { path, .. } => (FileDeed::Remove, path, None),
        FileOperation::SetPermissions { path, .. } => (FileDeed::SetPermissions, path, None),
        FileOperation::SetOwner { path, .. } => (FileDeed::SetOwner, path, None),
        FileOperation::MakeSymlink { path, target } => (FileDeed::MakeSymlink, path, Some(target)),
        FileOperation::SetAttributes { path, .. } => (FileDeed::SetAttributes, path, None),
        FileOperation::Stat { .. }
        | FileOperation::Read { .. }
        | FileOperation::List { .. }
        | FileOperation::Glob { .. }
        | FileOperation::Grep(_)
        | FileOperation::Watch { .. } => return None,
    };
    let to = to.map(|to| cut(&to.to_text()));
    Some(Action::Files { operation: deed, path: cut(&path.to_text()), to, bytes: None, files: None })
}
