//! A history as one archive: `manifest.json`, then each layer as a tar archive of its own, then
//! `checksums.json`. It can be written and read as it flows, which is why the checksums come last.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use sha2::{Digest as _, Sha256};
use warren_core::{LayerError, LayerId, SnapshotRecord, TemplateName};

use super::state::{Alone, Purpose, TreeArchive};
use super::tar::{Entry, Kind, TarWriter};
use super::writing;
use crate::digest::Digest;
use crate::layers::LayerDirectory;
use crate::layers::content::bundle::{
    CHECKSUMS, Checksums, LayerEntry, MANIFEST, Manifest, SnapshotEntry, member,
};
use crate::layers::content::failure::invalid;
use crate::layers::content::view::{self, Merged};

pub(super) fn export(
    store: &LayerDirectory,
    template: &TemplateName,
    snapshots: &[SnapshotRecord],
    to: &mut dyn Write,
) -> Result<(), LayerError> {
    let (manifest, layers) = describe(store, template, snapshots)?;
    manifest.check()?;
    let text = serde_json::to_vec(&manifest).map_err(|error| writing(error.into()))?;
    let mut sums = BTreeMap::from([(MANIFEST.to_owned(), Digest::of(&text))]);
    document(to, MANIFEST, &text)?;
    for layer in &layers {
        let mut counting = TreeArchive::new(TarWriter::counting());
        write_layer(store, layer, &mut counting)?;
        let size = counting.tar.written();
        let name = member(layer);
        let mut outer = TarWriter::new(to);
        outer.entry(&Entry { size, ..Entry::new(Kind::File, name.as_bytes()) }).map_err(writing)?;
        let mut hashed = Hashed { to, hash: Sha256::new(), written: 0 };
        write_layer(store, layer, &mut TreeArchive::new(TarWriter::new(&mut hashed)))?;
        if hashed.written != size {
            return Err(invalid(format!("{layer} changed while it was exported")));
        }
        sums.insert(name, Digest::finish(hashed.hash));
        TarWriter::new(to).pad(size).map_err(writing)?;
    }
    let text = serde_json::to_vec(&Checksums { sha256: sums }).map_err(|error| writing(error.into()))?;
    document(to, CHECKSUMS, &text)?;
    TarWriter::new(to).end().map_err(writing)
}

/// The length of what [`export`] writes, if it is counted by then.
pub(super) fn size(
    store: &LayerDirectory,
    template: &TemplateName,
    snapshots: &[SnapshotRecord],
    until: Instant,
) -> Result<Option<u64>, LayerError> {
    let (manifest, layers) = describe(store, template, snapshots)?;
    let text = serde_json::to_vec(&manifest).map_err(|error| writing(error.into()))?;
    // All checksums are equally long.
    let any = Digest::of(&text);
    let mut sums = BTreeMap::from([(MANIFEST.to_owned(), any.clone())]);
    let mut members = vec![(MANIFEST.to_owned(), text.len() as u64)];
    for layer in &layers {
        let mut counting = TreeArchive::new(TarWriter::counting_until(until));
        let counted = write_layer(store, layer, &mut counting);
        if counting.tar.is_late() {
            return Ok(None);
        }
        counted?;
        members.push((member(layer), counting.tar.written()));
        sums.insert(member(layer), any.clone());
    }
    let text = serde_json::to_vec(&Checksums { sha256: sums }).map_err(|error| writing(error.into()))?;
    members.push((CHECKSUMS.to_owned(), text.len() as u64));
    let mut whole = TarWriter::counting();
    for (name, size) in members {
        whole.entry(&Entry { size, ..Entry::new(Kind::File, name.as_bytes()) }).map_err(writing)?;
        whole.skip(size).map_err(writing)?;
    }
    whole.end().map_err(writing)?;
    Ok(Some(whole.written()))
}

fn document(to: &mut dyn Write, name: &str, text: &[u8]) -> Result<(), LayerError> {
    let mut tar = TarWriter::new(to);
    let size = text.len() as u64;
    tar.entry(&Entry { size, ..Entry::new(Kind::File, name.as_bytes()) }).map_err(writing)?;
    tar.content(&mut &*text, size).map_err(writing)
}

/// The manifest, and every layer once, those further below first.
fn describe(
    store: &LayerDirectory,
    template: &TemplateName,
    snapshots: &[SnapshotRecord],
) -> Result<(Manifest, Vec<LayerId>), LayerError> {
    let exported: HashSet<_> = snapshots.iter().map(|snapshot| &snapshot.id).collect();
    let mut layers = Vec::new();
    let mut numbers: HashMap<LayerId, usize> = HashMap::new();
    let mut entries = Vec::new();
    for snapshot in snapshots {
        for layer in snapshot.stack.0.iter().rev() {
            numbers.entry(layer.clone()).or_insert_with(|| {
                layers.push(layer.clone());
                layers.len() - 1
            });
        }
        let stack = snapshot.stack.0.iter().filter_map(|layer| numbers.get(layer).copied()).collect();
        entries.push(SnapshotEntry {
            id: snapshot.id.clone(),
            // A snapshot that is not exported means nothing to a reader.
            parent: snapshot.parent.clone().filter(|parent| exported.contains(parent)),
            name: snapshot.name.clone(),
            created_unix_ms: snapshot.created_unix_ms,
            stack,
        });
    }
    let mut described = Vec::new();
    for layer in &layers {
        let created_unix_ms = store.known(layer)?.created_unix_ms;
        described.push(LayerEntry { id: layer.clone(), created_unix_ms });
    }
    let template_digest = store.digest_of(template);
    let manifest = Manifest {
        format: Manifest::format(template_digest.as_ref()),
        template: template.clone(),
        template_digest,
        layers: described,
        snapshots: entries,
    };
    Ok((manifest, layers))
}

fn write_layer(
    store: &LayerDirectory,
    layer: &LayerId,
    archive: &mut TreeArchive<'_>,
) -> Result<(), LayerError> {
    for tree in &store.known(layer)?.trees {
        let number = usize::try_from(*tree).unwrap_or(usize::MAX);
        let top = Merged::new(view::uppers(store, std::slice::from_ref(layer), number)?)?;
        archive.tree(&Alone, Path::new("/"), top, format!("upper-{tree}/").as_bytes(), Purpose::Layer)?;
    }
    archive.tar.end().map_err(writing)
}

struct Hashed<'w> {
    to: &'w mut dyn Write,
    hash: Sha256,
    written: u64,
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or_default());
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
