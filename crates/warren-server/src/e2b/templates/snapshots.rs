//! Snapshots that clients take of sandboxes, to begin others with.

use warren_core::{Owner, SandboxId, SandboxRecord, SnapshotId};
use warren_e2b::rest::SnapshotInfo;

use super::book::{Context, Image, Kind, NewBuild, Outcome, Template, tags_or_default};
use super::reference::{build_id, new_name, template_id};
use super::start::Start;
use super::store::Books;
use crate::auth::Caller;
use crate::e2b::control::E2bError;
use crate::state::AppState;

/// Variables that every sandbox gets anew.
const OWN: [&str; 3] = ["E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID"];

/// A snapshot of a client's.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) info: SnapshotInfo,
    /// Which it was taken of.
    pub(crate) sandbox: SandboxId,
    pub(crate) name: Option<String>,
    pub(crate) created_unix_ms: u64,
}

/// Whether a snapshot may be called so. To be asked before it is taken.
pub(crate) fn check_snapshot_name(owner: &Owner, name: &str) -> Result<(), E2bError> {
    new_name(name, owner.as_str()).map(drop)
}

/// What the engine's snapshot is to be called: one with a name stays when its sandbox goes.
pub(crate) async fn snapshot_name(state: &AppState, owner: &Owner) -> Result<String, E2bError> {
    Books::snapshot_name(state, owner).await
}

/// Writes a snapshot into the book, so that sandboxes can begin with it.
pub(crate) async fn keep_snapshot(
    state: &AppState,
    caller: &Caller,
    sandbox: &SandboxRecord,
    snapshot: &SnapshotId,
    name: Option<&str>,
) -> Result<SnapshotInfo, E2bError> {
    let called = name.map(|name| new_name(name, caller.owner.as_str())).transpose()?;
    let (name, tag) = called.map(|called| (called.name, called.tag)).unzip();
    let tags = tags_or_default(tag.flatten().into_iter().collect());
    let new = NewBuild {
        template: template_id(state.random.bits()),
        build: build_id(state.random.bits()),
        name,
        tags: tags.clone(),
        cpus: None,
        memory_mb: None,
        now: state.clock.unix_ms(),
    };
    let image = image(sandbox, snapshot);
    let kept = Books::change(state, &caller.owner, move |book| {
        let id = book.keep(new, image)?;
        let name = book.templates.get(&id).and_then(|template| template.name.clone());
        Ok((id, name))
    });
    let (id, name) = kept.await?;
    let tag = tags.first().map(String::as_str).unwrap_or_default();
    Ok(info(&caller.owner, &id, name.as_deref(), tag))
}

/// What another sandbox needs to go on where this one was.
fn image(sandbox: &SandboxRecord, snapshot: &SnapshotId) -> Image {
    let mut env = sandbox.spec.env.clone();
    env.retain(|name, _| !OWN.contains(&name.as_str()));
    Image {
        snapshot: snapshot.clone(),
        sandbox: sandbox.id.clone(),
        context: Context {
            template: sandbox.spec.template.clone(),
            env,
            user: sandbox.spec.user.clone(),
            workdir: sandbox.spec.workdir.clone(),
        },
        start: Start::of(sandbox),
    }
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

/// Those that the owner took, the newest first.
pub(crate) async fn kept_snapshots(state: &AppState, owner: &Owner) -> Result<Vec<Kept>, E2bError> {
    let book = Books::of(state, owner).await?;
    let taken = book.templates.iter().filter(|(_, template)| template.kind == Kind::Sandbox);
    let mut kept: Vec<Kept> = taken.flat_map(|(id, template)| of_template(owner, id, template)).collect();
    kept.sort_by(|one, other| {
        let key = |kept: &Kept| (kept.created_unix_ms, kept.info.snapshot_id.clone());
        key(other).cmp(&key(one))
    });
    Ok(kept)
}

fn of_template(owner: &Owner, id: &str, template: &Template) -> Vec<Kept> {
    let one = |(tag, of): (&String, &super::book::Tag)| {
        let build = template.builds.get(&of.build)?;
        let Outcome::Ready(image) = &build.outcome else { return None };
        Some(Kept {
            info: info(owner, id, template.name.as_deref(), tag),
            sandbox: image.sandbox.clone(),
            name: template.name.clone(),
            created_unix_ms: build.created_unix_ms,
        })
    };
    template.tags.iter().filter_map(one).collect()
}
