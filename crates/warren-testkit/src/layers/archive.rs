use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use warren_core::{
    ImportFormat, ImportedHistory, ImportedSnapshot, LayerError, LayerErrorKind, LayerId, SnapshotRecord,
    Stack, TemplateName,
};

use super::shelf::Shelf;
use crate::delta::Delta;

/// The content of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "format", rename_all = "snake_case")]
pub(super) enum Archive {
    Tar { files: Delta },
    History { template: TemplateName, snapshots: Vec<SnapshotRecord>, layers: BTreeMap<LayerId, Delta> },
}

impl Archive {
    pub(super) fn history(
        shelf: &Shelf,
        template: &TemplateName,
        snapshots: &[SnapshotRecord],
    ) -> Result<Self, LayerError> {
        let mut layers = BTreeMap::new();
        for id in snapshots.iter().flat_map(|snapshot| &snapshot.stack.0) {
            layers.insert(id.clone(), shelf.usable(id)?.delta.clone());
        }
        Ok(Self::History { template: template.clone(), snapshots: snapshots.to_vec(), layers })
    }

    pub(super) fn parse(bytes: &[u8], format: ImportFormat) -> Result<Self, LayerError> {
        let archive: Self = serde_json::from_slice(bytes).map_err(|error| {
            LayerError::caused(LayerErrorKind::Invalid, "read an archive: it is none", error)
        })?;
        match (&archive, format) {
            (Self::Tar { .. }, ImportFormat::Tar) | (Self::History { .. }, ImportFormat::History) => {
                Ok(archive)
            }
            _ => Err(LayerError::new(LayerErrorKind::Invalid, "read an archive: it is of another format")),
        }
    }

    /// Puts the layers of the archive, under new ids, on the shelf.
    pub(super) fn unpack(
        self,
        shelf: &mut Shelf,
        draw: &dyn Fn() -> LayerId,
    ) -> Result<ImportedHistory, LayerError> {
        match self {
            Self::Tar { files } => {
                let id = draw();
                shelf.put(&id, files, true)?;
                let snapshot = ImportedSnapshot {
                    was: String::new(),
                    parent_was: None,
                    name: None,
                    created_unix_ms: 0,
                    stack: Stack(vec![id]),
                };
                Ok(ImportedHistory { template: None, snapshots: vec![snapshot] })
            }
            Self::History { template, snapshots, layers } => {
                let ids: BTreeMap<LayerId, LayerId> = layers.keys().map(|id| (id.clone(), draw())).collect();
                let snapshots =
                    snapshots.iter().map(|each| imported(each, &ids)).collect::<Result<Vec<_>, _>>()?;
                for (was, delta) in layers {
                    if let Some(id) = ids.get(&was) {
                        shelf.put(id, delta, true)?;
                    }
                }
                Ok(ImportedHistory { template: Some(template), snapshots })
            }
        }
    }
}

fn imported(
    record: &SnapshotRecord,
    ids: &BTreeMap<LayerId, LayerId>,
) -> Result<ImportedSnapshot, LayerError> {
    let find = |id: &LayerId| {
        let missing = || LayerError::new(LayerErrorKind::Invalid, "read an archive: a layer is missing");
        ids.get(id).cloned().ok_or_else(missing)
    };
    Ok(ImportedSnapshot {
        was: record.id.to_string(),
        parent_was: record.parent.as_ref().map(ToString::to_string),
        name: record.name.clone(),
        created_unix_ms: record.created_unix_ms,
        stack: Stack(record.stack.0.iter().map(find).collect::<Result<_, _>>()?),
    })
}
