use std::io::{Read, Write};
use std::path::Path;

use warren_core::{
    Change, Conflicts, DiffOptions, Differences, Entry, EntryKind, Export, ImportFormat, ImportedHistory,
    LayerContent, LayerError, LayerErrorKind, LayerId, Merge, MergeOrder, NewLayer, RootTree, Stack,
    TemplateInfo, TemplateName, TextDiff,
};

use super::archive::Archive;
use super::{FakeLayers, merge, text};
use crate::delta::{Delta, Node, Nodes};
use crate::world::{template_place, template_root};

impl LayerContent for FakeLayers {
    fn diff_each(
        &self,
        root: &[RootTree],
        from: &Stack,
        to: &Stack,
        options: &DiffOptions,
        told: &mut dyn FnMut(Change) -> bool,
    ) -> Result<Differences, LayerError> {
        let shelf = self.enter("diff")?;
        let (before, after) = (shelf.state(root, from)?, shelf.state(root, to)?);
        drop(shelf);
        let mut changes = changes(&before, &after, Some(options));
        changes.retain(|change| change.path.starts_with(&options.below));
        let end = if changes.len() > options.most { Differences::More } else { Differences::All };
        changes.truncate(options.most);
        if changes.into_iter().all(told) { Ok(end) } else { Ok(Differences::More) }
    }

    fn differs(&self, root: &[RootTree], from: &Stack, to: &Stack, path: &Path) -> Result<bool, LayerError> {
        let shelf = self.enter("differs")?;
        let delta = Delta::between(&shelf.state(root, from)?, &shelf.state(root, to)?);
        Ok(delta.0.keys().any(|changed| changed.starts_with(path)))
    }

    fn exists(&self, root: &[RootTree], stack: &Stack, path: &Path) -> Result<bool, LayerError> {
        let shelf = self.enter("exists")?;
        Ok(shelf.state(root, stack)?.keys().any(|known| known.starts_with(path)))
    }

    fn merge(
        &self,
        root: &[RootTree],
        order: &MergeOrder<'_>,
        into: Option<&NewLayer>,
    ) -> Result<Merge, LayerError> {
        let mut shelf = self.enter("merge")?;
        let [base, ours, theirs] =
            [order.base, order.ours, order.theirs].map(|stack| shelf.state(root, stack));
        let (base, ours, theirs) = (base?, ours?, theirs?);
        let joined = merge::join(&base, &ours, &theirs, order);
        let is_settled = joined.conflicts.is_empty() || order.conflicts != Conflicts::Refuse;
        if let Some(layer) = into.filter(|_| is_settled) {
            shelf.put(&layer.id, Delta::between(&ours, &joined.result), true)?;
        }
        Ok(Merge {
            changes: changes(&ours, &joined.result, None),
            conflicts: joined.conflicts,
            made: into.is_some() && is_settled,
        })
    }

    fn export(&self, root: &[RootTree], what: &Export<'_>, to: &mut dyn Write) -> Result<(), LayerError> {
        let shelf = self.enter("export")?;
        let bytes = match what {
            Export::Tar { stack, below } => {
                let mut files = shelf.state(root, stack)?;
                files.retain(|path, _| path.starts_with(below));
                encode(&Archive::Tar { files: Delta::between(&Nodes::new(), &files) })?
            }
            Export::Patch { from, to, below, .. } => {
                let (before, after) = (shelf.state(root, from)?, shelf.state(root, to)?);
                patch(&before, &after, below).into_bytes()
            }
            Export::History { template, snapshots } => {
                encode(&Archive::history(&shelf, template, snapshots)?)?
            }
        };
        drop(shelf);
        to.write_all(&bytes)
            .map_err(|error| LayerError::caused(LayerErrorKind::Host, "write an archive", error))
    }

    fn export_size(&self, root: &[RootTree], what: &Export<'_>) -> Result<Option<u64>, LayerError> {
        if matches!(what, Export::Patch { .. }) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.export(root, what, &mut bytes)?;
        Ok(Some(bytes.len() as u64))
    }

    fn import(
        &self,
        _: &[RootTree],
        from: &mut dyn Read,
        format: ImportFormat,
        draw: &dyn Fn() -> LayerId,
    ) -> Result<ImportedHistory, LayerError> {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes)
            .map_err(|error| LayerError::caused(LayerErrorKind::Host, "read an archive", error))?;
        let mut shelf = self.enter("import")?;
        Archive::parse(&bytes, format)?.unpack(&mut shelf, draw)
    }

    fn make_template(
        &self,
        below: &TemplateName,
        stack: &Stack,
        name: &TemplateName,
    ) -> Result<TemplateInfo, LayerError> {
        let mut shelf = self.enter("make_template")?;
        let place = template_place(name);
        if shelf.templates.contains_key(&place) {
            shelf.violations.push(format!("template {name} is made where it exists"));
            return Err(LayerError::new(LayerErrorKind::Invalid, format!("template `{name}` exists")));
        }
        let mut files = shelf.template_files(&template_root(below));
        files.cover(&shelf.flatten(&stack.0)?);
        let info = TemplateInfo {
            name: name.clone(),
            digest: format!("sha256:{name}"),
            size_bytes: files.bytes(),
            created_unix_ms: 1_600_000_000_000,
            source: "snapshot".to_owned(),
            user: "root".to_owned(),
            workdir: "/root".to_owned(),
            image: None,
            broken: None,
        };
        shelf.templates.insert(place, files);
        if let Some(publisher) = &shelf.publisher {
            publisher.put(info.clone());
        }
        Ok(info)
    }
}

fn encode(archive: &Archive) -> Result<Vec<u8>, LayerError> {
    serde_json::to_vec(archive)
        .map_err(|error| LayerError::caused(LayerErrorKind::Invalid, "write an archive", error))
}

/// The differences, in the order of the paths; with options, line by line.
fn changes(before: &Nodes, after: &Nodes, options: Option<&DiffOptions>) -> Vec<Change> {
    let options = options.filter(|options| options.text);
    let change = |path: &std::path::PathBuf| {
        let (was, is) = (before.get(path), after.get(path));
        Change {
            path: path.clone(),
            before: was.map(entry),
            after: is.map(entry),
            text: options.and_then(|options| lines(was, is, options.most_text_bytes)),
        }
    };
    Delta::between(before, after).0.keys().map(change).collect()
}

fn lines(before: Option<&Node>, after: Option<&Node>, most_bytes: u64) -> Option<TextDiff> {
    if before.into_iter().chain(after).any(|node| node.content.is_none()) {
        return None;
    }
    let [before, after] = [before, after].map(|node| node.and_then(|node| node.content.as_deref()));
    Some(text::compare(before, after, most_bytes))
}

fn entry(node: &Node) -> Entry {
    Entry {
        kind: if node.content.is_some() { EntryKind::File } else { EntryKind::Directory },
        size: node.content.as_ref().map_or(0, |content| content.len() as u64),
        mode: node.permissions,
        uid: 0,
        gid: 0,
        mtime_unix_ms: 0,
    }
}

fn patch(before: &Nodes, after: &Nodes, below: &Path) -> String {
    let options = DiffOptions { text: true, ..DiffOptions::default() };
    let mut patch = String::new();
    for change in changes(before, after, Some(&options)) {
        if let (true, Some(TextDiff::Unified(hunks))) = (change.path.starts_with(below), change.text) {
            let path = change.path.strip_prefix(below).unwrap_or(&change.path).display().to_string();
            let side = |mark: &str, there: bool| {
                if there { format!("{mark}/{path}") } else { "/dev/null".to_owned() }
            };
            let (old, new) = (side("a", change.before.is_some()), side("b", change.after.is_some()));
            patch.push_str(&format!("diff --git a/{path} b/{path}\n--- {old}\n+++ {new}\n{hunks}"));
        }
    }
    patch
}
