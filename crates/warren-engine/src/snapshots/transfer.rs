use std::collections::HashMap;
use std::io::{Read, Write};

use parking_lot::Mutex;
use warren_core::catalog::Durability;
use warren_core::{
    Export, ImportFormat, ImportedHistory, LayerError, LayerErrorKind, MOST_LAYERS, Owner, RootKind,
    RootTree, SandboxId, SandboxKind, SandboxSpec, SnapshotId, SnapshotMethod, SnapshotReason,
    SnapshotRecord, TemplateInfo, TemplateName,
};

use super::compare::{State, ancestry, same_base};
use super::flush::layers_of;
use super::records::check_name;
use super::{ExportOrder, Point, Snapshots};
use crate::base::image_refused;
use crate::bounds::heavy;
use crate::error::Field;
use crate::state::Pin;
use crate::work_kind::WorkKind;
use crate::{Engine, EngineError, EngineStep};

/// Told of the size of an export before it begins.
pub type ToldSize = Box<dyn FnOnce(u64) + Send>;

impl Snapshots {
    /// Writes a state for others, on a thread of its own, at the pace of who takes it. An error may
    /// come after some bytes.
    pub async fn export(
        &self,
        what: &Point,
        order: ExportOrder,
        to: Box<dyn Write + Send>,
    ) -> Result<(), EngineError> {
        self.export_sized(what, order, None, to).await
    }

    /// The same, and before the first byte `sized` is told how many there will be, if that can be
    /// known within moments. The machine's own `/usr` may change meanwhile, and the number with it.
    pub async fn export_sized(
        &self,
        what: &Point,
        order: ExportOrder,
        sized: Option<ToldSize>,
        mut to: Box<dyn Write + Send>,
    ) -> Result<(), EngineError> {
        let place = self.access.engine.place_for(self.access.owner(), WorkKind::Transfer).await?;
        let state = self.access.engine.state(self.access.owner(), what).await?;
        let since = match &order {
            ExportOrder::Patch { since, .. } => {
                let since = self.access.engine.state(self.access.owner(), since).await?;
                same_base(Field::Since, &since, &state)?;
                Some(since)
            }
            ExportOrder::Tar { .. } | ExportOrder::History => None,
        };
        let (engine, owner) = (self.access.engine.inner(), self.access.owner().clone());
        heavy::at(place, move || engine.export_now(&owner, &state, since.as_ref(), order, sized, to.as_mut()))
            .await
    }

    /// Reads what another Warren exported, or a tar file, which needs a template to stand on.
    /// Answers with the snapshots in order; the last is the newest.
    pub async fn import(
        &self,
        format: ImportFormat,
        template: Option<TemplateName>,
        name: Option<String>,
        mut from: Box<dyn Read + Send>,
    ) -> Result<Vec<SnapshotRecord>, EngineError> {
        self.access.engine.may_change()?;
        self.access.engine.first_layered()?;
        name.as_deref().map_or(Ok(()), check_name)?;
        if format == ImportFormat::Tar && template.is_none() {
            return Err(EngineError::invalid(Field::Template, "a tar file needs a template to stand on"));
        }
        let place = self.access.engine.place_for(self.access.owner(), WorkKind::Transfer).await?;
        let (engine, owner) = (self.access.engine.inner(), self.access.owner().clone());
        heavy::at(place, move || {
            engine.check_disk()?;
            let root = match &template {
                Some(template) => engine.root_for(template)?,
                None => Vec::new(),
            };
            let pin = Mutex::new(engine.shared.keep.pin(&[]));
            let draw = || {
                let layer = engine.draw_layer();
                pin.lock().add(layer.clone());
                layer
            };
            let imported = engine.shared.parts.layers.import(&root, from.as_mut(), format, &draw)?;
            (engine.shared.parts.passed)(EngineStep::ImportMade);
            engine.record_import(&owner, imported, template, name)
        })
        .await
    }

    /// Makes a template that begins with a snapshot's state.
    pub async fn make_template(
        &self,
        snapshot: &SnapshotId,
        name: &TemplateName,
    ) -> Result<TemplateInfo, EngineError> {
        self.access.engine.may_change()?;
        let place = self.access.engine.place_for(self.access.owner(), WorkKind::Comparison).await?;
        let state = self.access.engine.state(self.access.owner(), &Point::Snapshot(snapshot.clone())).await?;
        image_refused(Field::Snapshot, &state.spec, "another template").map_or(Ok(()), Err)?;
        let (engine, name) = (self.access.engine.inner(), name.clone());
        heavy::at(place, move || {
            engine.check_disk()?;
            Ok(engine.shared.parts.layers.make_template(&state.spec.template, &state.stack, &name)?)
        })
        .await
    }
}

impl Engine {
    fn export_now(
        &self,
        owner: &Owner,
        state: &State,
        since: Option<&State>,
        order: ExportOrder,
        sized: Option<ToldSize>,
        to: &mut dyn Write,
    ) -> Result<(), EngineError> {
        if let (ExportOrder::History, Some(refused)) =
            (&order, image_refused(Field::Snapshot, &state.spec, "another Warren"))
        {
            return Err(refused);
        }
        let root = self.root_below(state)?;
        let layers = &self.shared.parts.layers;
        let write = |what: &Export<'_>| {
            if let Some(sized) = sized
                && let Some(bytes) = layers.export_size(&root, what)?
            {
                sized(bytes);
            }
            layers.export(&root, what, to)
        };
        match (order, since) {
            (ExportOrder::Tar { below }, _) => {
                write(&Export::Tar { stack: &state.stack, below })?;
            }
            (ExportOrder::Patch { below, leave_out, .. }, since) => {
                let from = since.map_or(&state.stack, |since| &since.stack);
                let patch = Export::Patch { from, to: &state.stack, below, leave_out: &leave_out };
                write(&patch)?;
            }
            (ExportOrder::History, _) => {
                let (snapshots, _pin) = self.line_of(owner, &state.id)?;
                let history = Export::History { template: &state.spec.template, snapshots: &snapshots };
                write(&history)?;
            }
        }
        Ok(())
    }

    /// All that came before a snapshot, the oldest first, with their layers held. Blocks.
    fn line_of(&self, owner: &Owner, id: &SnapshotId) -> Result<(Vec<SnapshotRecord>, Pin), EngineError> {
        let _learning = self.shared.keep.collecting.read();
        let mut line = ancestry(self.shared.parts.catalog.as_ref(), owner, id)?;
        if line.is_empty() {
            return Err(EngineError::snapshot_not_found(id));
        }
        line.retain(|snapshot| !snapshot.damaged);
        line.reverse();
        let mut pin = self.shared.keep.pin(&[]);
        line.iter().flat_map(|snapshot| &snapshot.stack.0).for_each(|layer| pin.add(layer.clone()));
        Ok((line, pin))
    }

    fn record_import(
        &self,
        owner: &Owner,
        imported: ImportedHistory,
        template: Option<TemplateName>,
        name: Option<String>,
    ) -> Result<Vec<SnapshotRecord>, EngineError> {
        let parts = &self.shared.parts;
        let template = template.or(imported.template).unwrap_or_else(TemplateName::host);
        self.root_for(&template)?;
        let sandbox = SandboxId::from_random(parts.random.bits());
        let (now_ms, backend) = (parts.clock.unix_ms(), self.first_layered()?);
        let mut ids: HashMap<String, SnapshotId> = HashMap::new();
        let mut rows = Vec::new();
        for snapshot in imported.snapshots {
            if snapshot.stack.depth() > MOST_LAYERS {
                let action = format!("import a snapshot of more than {MOST_LAYERS} layers");
                return Err(LayerError::new(LayerErrorKind::Invalid, action).into());
            }
            let id = self.draw_snapshot();
            let parent = snapshot.parent_was.as_ref().and_then(|was| ids.get(was)).cloned();
            ids.insert(snapshot.was, id.clone());
            rows.push(SnapshotRecord {
                id,
                owner: owner.clone(),
                node: self.node().clone(),
                sandbox: sandbox.clone(),
                session: None,
                parent,
                before: None,
                operations: None,
                lost: Vec::new(),
                name: snapshot.name.filter(|name| check_name(name).is_ok()),
                reason: SnapshotReason::Import,
                turn: None,
                created_unix_ms: snapshot.created_unix_ms.min(now_ms),
                method: SnapshotMethod::Copied,
                stack: snapshot.stack,
                memory: None,
                space: None,
                durable: true,
                damaged: false,
                spec: SandboxSpec::new(template.clone()),
                kind: SandboxKind::default(),
                disk_limit_required: false,
                backend: backend.clone(),
            });
        }
        settle_names(&mut rows, name);
        parts.layers.sync(&layers_of(&rows))?;
        parts.catalog.insert_snapshots(&rows, Durability::Disk)?;
        Ok(rows)
    }

    /// The layers of a template, or an error if it cannot be used. Blocks.
    fn root_for(&self, name: &TemplateName) -> Result<Vec<RootTree>, EngineError> {
        let nobody = SandboxId::from_random([0; 16]);
        self.base_root(&nobody, &SandboxSpec::new(name.clone()), "")
    }

    /// The first backend that can use what is imported.
    fn first_layered(&self) -> Result<String, EngineError> {
        let backends = &self.shared.backends;
        let able = backends.iter().find(|backend| {
            let roots = &backend.port.capabilities().roots;
            backend.port.layered().is_some() && roots.contains(&RootKind::Layers)
        });
        able.map(|backend| backend.name().to_owned()).ok_or_else(|| {
            let why = "no backend can start a sandbox on layers (capability `snapshots`)".to_owned();
            EngineError::SnapshotsUnavailable(why)
        })
    }
}

/// The newest gets the name that was asked for; of several with one name the newest keeps it.
fn settle_names(rows: &mut [SnapshotRecord], name: Option<String>) {
    if let (Some(last), Some(name)) = (rows.last_mut(), name) {
        last.name = Some(name);
    }
    let mut taken = std::collections::HashSet::new();
    for row in rows.iter_mut().rev() {
        row.name = row.name.take().filter(|name| taken.insert(name.clone()));
    }
}
