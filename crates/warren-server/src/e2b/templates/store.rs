//! Where the books are: one note in the catalog for each owner, and a copy of it in memory.
//!
//! A snapshot is taken before the book names it, and deleted after the book has forgotten it. What a crash leaves in between is a
//! snapshot with a name of ours that no book has; it goes when the owner's book is opened the next time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::OnceCell;
use warren_core::catalog::{Catalog, SandboxFilter, SnapshotFilter};
use warren_core::{Owner, PageRequest, Random, SandboxRecord, SnapshotId, SnapshotRecord};
use warren_engine::{EngineError, StoppedFiles};

use super::book::Book;
use super::contexts::Contexts;
use super::jobs::Jobs;
use super::reference::build_id;
use crate::e2b::BY;
use crate::e2b::control::E2bError;
use crate::error::{ApiError, chain};
use crate::state::AppState;

/// What an owner's templates may take, written down.
const MOST_BYTES: usize = 16 << 20;

/// How the names of our snapshots begin. People may give such names too, and those are theirs.
const SNAPSHOT: &str = "e2b template ";

/// The label of sandboxes in which something is built, with the value that they have.
pub(super) const BUILD_LABEL: (&str, &str) = ("warren.e2b", "build");
/// And their annotation, which no client can write.
pub(super) const BUILD_NOTE: &str = "e2b_build";

/// What the server knows of templates that clients built.
#[derive(Debug, Default)]
pub(crate) struct Books {
    owners: Mutex<HashMap<Owner, Arc<OnceCell<Pages>>>>,
    pub(super) jobs: Jobs,
    /// How often templates were used since the server began, and when last.
    uses: Mutex<HashMap<(Owner, String), (u64, u64)>>,
}

/// One owner's book.
#[derive(Debug, Default)]
struct Pages {
    book: RwLock<Arc<Book>>,
    /// Held from reading to writing.
    changing: Mutex<()>,
}

impl Books {
    /// An owner's book as it is now.
    pub(super) async fn of(state: &AppState, owner: &Owner) -> Result<Arc<Book>, E2bError> {
        let cell = state.books.cell(owner);
        let pages = cell.get_or_try_init(|| open(state, owner)).await?;
        Ok(Arc::clone(&pages.book.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Changes an owner's book: all of it holds once it is on disk, or nothing of it. Snapshots that the book names no more are
    /// deleted.
    pub(super) async fn change<T: Send + 'static>(
        state: &AppState,
        owner: &Owner,
        change: impl FnOnce(&mut Book) -> Result<T, E2bError> + Send + 'static,
    ) -> Result<T, E2bError> {
        let cell = state.books.cell(owner);
        cell.get_or_try_init(|| open(state, owner)).await?;
        let (catalog, whose) = (Arc::clone(&state.catalog), owner.clone());
        let written = tokio::task::spawn_blocking(move || match cell.get() {
            Some(pages) => pages.change(catalog.as_ref(), &whose, change),
            None => Err(ApiError::internal("a book that was opened is closed").into()),
        });
        let (outcome, gone) = written.await.map_err(ApiError::internal)??;
        discard(state, owner, gone);
        Ok(outcome)
    }

    /// The name of a snapshot that is to be taken, so that it stays when its sandbox goes. The book is open from then on, so nobody
    /// takes the snapshot for one that a crash left behind.
    pub(super) async fn snapshot_name(state: &AppState, owner: &Owner) -> Result<String, E2bError> {
        Self::of(state, owner).await?;
        Ok(snapshot_name(state.random.as_ref()))
    }

    /// A sandbox is made of a template.
    pub(super) fn count_use(&self, owner: &Owner, template: &str, now: u64) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let count = uses.entry((owner.clone(), template.to_owned())).or_default();
        *count = (count.0 + 1, now);
    }

    pub(super) fn uses_of(&self, owner: &Owner, template: &str) -> (u64, Option<u64>) {
        let uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        match uses.get(&(owner.clone(), template.to_owned())) {
            Some((count, last)) => (*count, Some(*last)),
            None => (0, None),
        }
    }

    fn cell(&self, owner: &Owner) -> Arc<OnceCell<Pages>> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(owners.entry(owner.clone()).or_default())
    }
}

impl Pages {
    /// Blocks.
    fn change<T>(
        &self,
        catalog: &dyn Catalog,
        owner: &Owner,
        change: impl FnOnce(&mut Book) -> Result<T, E2bError>,
    ) -> Result<(T, Vec<SnapshotId>), E2bError> {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = Arc::clone(&self.book.read().unwrap_or_else(PoisonError::into_inner));
        let mut after = before.as_ref().clone();
        let outcome = change(&mut after)?;
        if after == *before {
            return Ok((outcome, Vec::new()));
        }
        let text = serde_json::to_string(&after).map_err(ApiError::internal)?;
        if text.len() > MOST_BYTES {
            return Err(E2bError::bad_request(
                "your templates and snapshots take too much room with all their variables: delete some",
            ));
        }
        catalog.set_setting(&note(owner), Some(&text)).map_err(ApiError::internal)?;
        let kept = after.snapshots();
        let gone = before.snapshots().into_iter().filter(|id| !kept.contains(id)).cloned().collect();
        *self.book.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(after);
        Ok((outcome, gone))
    }
}

/// The catalog's note.
fn note(owner: &Owner) -> String {
    format!("server.e2b.templates.{owner}")
}

fn snapshot_name(random: &dyn Random) -> String {
    format!("{SNAPSHOT}{}", build_id(random.bits()))
}

/// Reads a book, and clears away what an earlier server left half done. A book that cannot be read is an error: were it taken for
/// empty, all that it names would be lost.
async fn open(state: &AppState, owner: &Owner) -> Result<Pages, E2bError> {
    let (catalog, name) = (Arc::clone(&state.catalog), note(owner));
    let contexts = Contexts::of(&state.config, owner);
    let read = tokio::task::spawn_blocking(move || {
        contexts.clear();
        catalog.setting(&name)
    });
    let text = read.await.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
    let mut book: Book = match text {
        Some(text) => serde_json::from_str(&text).map_err(ApiError::internal)?,
        None => Book::default(),
    };
    book.abandon("the server stopped while it was built: build it again");
    let orphans = orphans(state, owner, &book).await?;
    discard(state, owner, orphans);
    end_builds(state, owner).await?;
    Ok(Pages { book: RwLock::new(Arc::new(book)), changing: Mutex::default() })
}

/// Snapshots of ours that the book does not have.
async fn orphans(state: &AppState, owner: &Owner, book: &Book) -> Result<Vec<SnapshotId>, E2bError> {
    let filter = SnapshotFilter { named: true, ..SnapshotFilter::default() };
    let mut page = PageRequest { limit: PageRequest::MOST, after: None };
    let kept = book.snapshots();
    let ours = |row: &SnapshotRecord| row.name.as_deref().is_some_and(|name| name.starts_with(SNAPSHOT));
    let mut orphans = Vec::new();
    loop {
        let found = state.engine_as(BY, owner).snapshots().list(&filter, &page).await?;
        let rows = found.items.into_iter().filter(|row| ours(row) && !kept.contains(&row.id));
        orphans.extend(rows.map(|row| row.id));
        match found.next {
            Some(next) => page.after = Some(next),
            None => return Ok(orphans),
        }
    }
}

/// Ends sandboxes in which an earlier server built something.
async fn end_builds(state: &AppState, owner: &Owner) -> Result<(), E2bError> {
    let (label, value) = BUILD_LABEL;
    let labels = [(label.to_owned(), value.to_owned())].into();
    let filter = SandboxFilter { labels, ..SandboxFilter::default() };
    let page = PageRequest { limit: PageRequest::MOST, after: None };
    let engine = state.engine_as(BY, owner);
    let found = engine.sandboxes().list(&filter, &page).await?;
    tokio::spawn(async move {
        for SandboxRecord { id, .. } in found.items.into_iter().filter(is_build) {
            if let Err(error) = engine.sandbox(&id).stop(StoppedFiles::Delete).await {
                tracing::warn!(sandbox.id = %id, error = chain(&error), "what a build left could not be removed");
            }
        }
    });
    Ok(())
}

/// Whether something is built in a sandbox: it is none of a client's.
pub(crate) fn is_build(record: &SandboxRecord) -> bool {
    record.annotations.contains_key(BUILD_NOTE)
}

/// Deletes snapshots that nobody needs, in the background. What stays although it should not is an orphan to the next server.
pub(super) fn discard(state: &AppState, owner: &Owner, snapshots: Vec<SnapshotId>) {
    if snapshots.is_empty() {
        return;
    }
    let snapshots_of = state.engine_as(BY, owner).snapshots();
    tokio::spawn(async move {
        for id in snapshots {
            match snapshots_of.delete(&id).await {
                Ok(()) | Err(EngineError::NotFound { .. }) => {}
                Err(error) => {
                    tracing::warn!(snapshot.id = %id, error = chain(&error), "a template's snapshot could not be deleted");
                }
            }
        }
    });
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
