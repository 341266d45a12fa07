use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};

use sha2::{Digest as _, Sha256};
use warren_core::{ImportedHistory, ImportedSnapshot, LayerError, LayerErrorKind, LayerId, NewLayer, Stack};

use super::{Made, layer, refused};
use crate::digest::Digest;
use crate::import::archive::{Archive, ArchiveError, EndMark, Entry, Input, Kind, Streamed};
use crate::import::error::ImportError;
use crate::import::limits::Meter;
use crate::import::stream::{self, Tallied};
use crate::layers::LayerDirectory;
use crate::layers::content::bundle::{CHECKSUMS, Checksums, MANIFEST, MOST_BYTES, Manifest, member};
use crate::layers::content::failure::invalid;
use crate::layers::staging::Staged;

pub(super) fn import(
    store: &LayerDirectory,
    from: &mut dyn Read,
    draw: &dyn Fn() -> LayerId,
    meter: &Meter<'_>,
) -> Result<ImportedHistory, LayerError> {
    let mut tallied = Tallied::new(from, meter);
    let decoded = stream::decode(&mut tallied).map_err(refused)?;
    let archive = Archive::new(Streamed(decoded), meter.limits.header_bytes, EndMark::Required);
    let made = Made { store, layers: Vec::new() };
    let mut bundle = Bundle { archive, meter, sums: BTreeMap::new(), made };
    let text = bundle.manifest()?;
    let manifest = Manifest::parse(&text)?;
    check_template(store, &manifest)?;
    bundle.sums.insert(MANIFEST.to_owned(), Digest::of(&text));
    drop(text);
    let layers = bundle.layers(&manifest, draw)?;
    bundle.made.keep();
    let snapshots = manifest.snapshots.into_iter().map(|snapshot| ImportedSnapshot {
        was: snapshot.id.into(),
        parent_was: snapshot.parent.map(String::from),
        name: snapshot.name,
        created_unix_ms: snapshot.created_unix_ms,
        stack: Stack(snapshot.stack.iter().filter_map(|number| layers.get(number).cloned()).collect()),
    });
    let snapshots = snapshots.collect();
    Ok(ImportedHistory { template: Some(manifest.template), snapshots })
}

/// A template of the same name may be another one: what stands on it would then be neither what it
/// was nor what is there.
fn check_template(store: &LayerDirectory, manifest: &Manifest) -> Result<(), LayerError> {
    let (template, there) = (&manifest.template, store.digest_of(&manifest.template));
    match (&manifest.template_digest, there) {
        (Some(was), Some(is)) if *was != is => Err(invalid(format!(
            "the history stands on the template `{template}` with the digest {was}, and the one here has {is}: import or pull \
             that one first"
        ))),
        _ => Ok(()),
    }
}

/// An archive of a history, as it is read.
struct Bundle<'a, 'm, R> {
    archive: Archive<R>,
    meter: &'a Meter<'m>,
    /// The digests of the members read so far.
    sums: BTreeMap<String, Digest>,
    made: Made<'a>,
}

impl<R: Input> Bundle<'_, '_, R> {
    fn next(&mut self) -> Result<Option<Entry>, LayerError> {
        self.archive.next().map_err(|error| refused(error.into()))
    }

    fn manifest(&mut self) -> Result<Vec<u8>, LayerError> {
        let first = self.next()?;
        if first.is_none_or(|entry| entry.name != MANIFEST.as_bytes() || !is_plain(&entry)) {
            return Err(invalid(format!(
                "the archive is no exported history: it does not begin with `{MANIFEST}`"
            )));
        }
        self.document(MANIFEST)
    }

    /// Reads layers until the checksums come, and holds them to these. Answers the new ids by the
    /// numbers in the manifest.
    fn layers(
        &mut self,
        manifest: &Manifest,
        draw: &dyn Fn() -> LayerId,
    ) -> Result<HashMap<usize, LayerId>, LayerError> {
        let expected: HashMap<_, _> = manifest
            .layers
            .iter()
            .enumerate()
            .map(|(number, layer)| (member(&layer.id).into_bytes(), (number, layer)))
            .collect();
        let mut layers = HashMap::new();
        loop {
            let missing = || invalid(format!("the archive ends before `{CHECKSUMS}`: fetch it again"));
            let entry = self.next()?.ok_or_else(missing)?;
            if !is_plain(&entry) {
                return Err(invalid("the archive of a history holds plain files only"));
            }
            if entry.name == CHECKSUMS.as_bytes() {
                break;
            }
            let (number, layer) = expected
                .get(&entry.name)
                .ok_or_else(|| invalid("the archive holds what its manifest does not name"))?;
            if layers.contains_key(number) {
                return Err(invalid(format!("the archive holds {} twice", layer.id)));
            }
            let id = self.layer(&member(&layer.id), layer.created_unix_ms, draw)?;
            layers.insert(*number, id);
        }
        self.check_sums()?;
        if layers.len() != manifest.layers.len() {
            return Err(invalid("the archive lacks layers that its manifest names: fetch it again"));
        }
        Ok(layers)
    }

    fn layer(
        &mut self,
        name: &str,
        created_unix_ms: u64,
        draw: &dyn Fn() -> LayerId,
    ) -> Result<LayerId, LayerError> {
        let staged = Staged::begin(self.made.store)?;
        let mut member = Member { archive: &mut self.archive, hash: Sha256::new() };
        layer::extract(&mut member, staged.directory(), self.meter).map_err(refused)?;
        io::copy(&mut member, &mut io::sink()).map_err(|error| refused(ImportError::reading(error)))?;
        self.sums.insert(name.to_owned(), Digest::finish(member.hash));
        let id = draw();
        staged.commit(&NewLayer { id: id.clone(), sandbox: None, created_unix_ms })?;
        self.made.layers.push(id.clone());
        Ok(id)
    }

    /// The checksums come last: whatever follows them is covered by none.
    fn check_sums(&mut self) -> Result<(), LayerError> {
        let text = self.document(CHECKSUMS)?;
        let told: Checksums = serde_json::from_slice(&text).map_err(|error| {
            LayerError::caused(
                LayerErrorKind::Invalid,
                format!("`{CHECKSUMS}` of the archive is malformed"),
                error,
            )
        })?;
        if told.sha256 != self.sums {
            return Err(invalid("the archive does not have the checksums that it names: fetch it again"));
        }
        match self.next()? {
            Some(_) => Err(invalid(format!("the archive goes on after `{CHECKSUMS}`"))),
            None => Ok(()),
        }
    }

    fn document(&mut self, name: &str) -> Result<Vec<u8>, LayerError> {
        let mut text = Vec::new();
        let member = Member { archive: &mut self.archive, hash: Sha256::new() };
        member
            .take(MOST_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(|error| refused(ImportError::reading(error)))?;
        if text.len() as u64 > MOST_BYTES {
            return Err(invalid(format!("`{name}` of the archive is larger than {MOST_BYTES} bytes")));
        }
        Ok(text)
    }
}

fn is_plain(entry: &Entry) -> bool {
    entry.kind == Kind::File && entry.sparse.is_none()
}

/// The content of the current member.
struct Member<'a, R> {
    archive: &'a mut Archive<R>,
    hash: Sha256,
}

impl<R: Input> Read for Member<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.archive.read(buffer).map_err(|error| match error {
            ArchiveError::Read(error) => error,
            ArchiveError::Truncated => io::ErrorKind::UnexpectedEof.into(),
            other => io::Error::other(other),
        })?;
        self.hash.update(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}
