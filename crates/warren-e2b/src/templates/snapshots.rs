//! Snapshots that clients take of sandboxes, to begin others with.

use warren_core::{BuildOutcome, ImageOrigin, ImageRecord, ImageRef, Owner, SandboxId, Tag};
use warren_engine::{Captured, Taken};
use warren_face::auth::Caller;

use crate::error::E2bError;
use crate::rest::SnapshotInfo;
use crate::state::E2b;

/// A snapshot of a client's.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) info: SnapshotInfo,
    /// Which it was taken of.
    pub(crate) sandbox: SandboxId,
    pub(crate) name: Option<String>,
    pub(crate) created_unix_ms: u64,
}

/// The name for a snapshot. To be asked before it is taken.
pub(crate) fn snapshot_name(owner: &Owner, name: Option<&str>) -> Result<Option<ImageRef>, E2bError> {
    Ok(name.map(|name| ImageRef::new_name(name, owner)).transpose()?)
}

/// Captures a sandbox, so that others can begin with it.
pub(crate) async fn keep_snapshot(
    state: &E2b,
    caller: &Caller,
    sandbox: &SandboxId,
    name: Option<ImageRef>,
) -> Result<(SnapshotInfo, Taken), E2bError> {
    let images = state.engine.as_(caller).images();
    let Captured { taken, image, name, tag } = images.capture(sandbox, name).await?;
    Ok((info(&caller.owner, image.as_str(), name.as_deref(), &tag), taken))
}

fn info(owner: &Owner, id: &str, name: Option<&str>, tag: &str) -> SnapshotInfo {
    match name {
        Some(name) => {
            let full = format!("{owner}/{name}:{tag}");
            SnapshotInfo { snapshot_id: full.clone(), names: vec![full] }
        }
        None => SnapshotInfo { snapshot_id: format!("{id}:{tag}"), names: Vec::new() },
    }
}

/// The snapshots that the owner took.
pub(crate) async fn kept_snapshots(state: &E2b, caller: &Caller) -> Result<Vec<Kept>, E2bError> {
    let images = state.engine.as_(caller).images().list().await?;
    let taken = images.iter().filter(|image| image.origin == ImageOrigin::Sandbox);
    Ok(taken.flat_map(of_image).collect())
}

fn of_image(image: &ImageRecord) -> Vec<Kept> {
    let one = |(tag, of): (&String, &Tag)| {
        let build = image.builds.get(&of.build)?;
        let BuildOutcome::Ready(built) = &build.outcome else { return None };
        Some(Kept {
            info: info(&image.owner, image.id.as_str(), image.name.as_deref(), tag),
            sandbox: built.sandbox.clone(),
            name: image.name.clone(),
            created_unix_ms: build.created_unix_ms,
        })
    };
    image.tags.iter().filter_map(one).collect()
}
