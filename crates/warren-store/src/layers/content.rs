pub(super) mod build;
mod bundle;
mod diff;
mod export;
pub(super) mod failure;
#[cfg(test)]
#[path = "content/tests/fixture.rs"]
pub(super) mod fixture;
pub(super) mod import;
mod left_out;
mod merge;
mod template;
pub(super) mod view;

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use warren_core::{
    Change, DiffOptions, Differences, Export, ImportFormat, ImportedHistory, LayerContent, LayerError,
    LayerId, Merge, MergeOrder, NewLayer, RootTree, Stack, TemplateInfo, TemplateName,
};

use super::LayerDirectory;

/// The time that counting an export may take: nobody is to wait for long for its first byte.
const COUNTING: Duration = Duration::from_secs(2);

impl LayerContent for LayerDirectory {
    fn diff_each(
        &self,
        root: &[RootTree],
        from: &Stack,
        to: &Stack,
        options: &DiffOptions,
        told: &mut dyn FnMut(Change) -> bool,
    ) -> Result<Differences, LayerError> {
        diff::diff_each(self, root, from, to, options, told)
    }

    fn differs(&self, root: &[RootTree], from: &Stack, to: &Stack, path: &Path) -> Result<bool, LayerError> {
        diff::differs(self, root, from, to, path)
    }

    fn exists(&self, root: &[RootTree], stack: &Stack, path: &Path) -> Result<bool, LayerError> {
        diff::exists(self, root, stack, path)
    }

    fn merge(
        &self,
        root: &[RootTree],
        order: &MergeOrder<'_>,
        into: Option<&NewLayer>,
    ) -> Result<Merge, LayerError> {
        merge::merge(self, root, order, into)
    }

    fn export(&self, root: &[RootTree], what: &Export<'_>, to: &mut dyn Write) -> Result<(), LayerError> {
        export::export(self, root, what, to)
    }

    fn export_size(&self, root: &[RootTree], what: &Export<'_>) -> Result<Option<u64>, LayerError> {
        export::size(self, root, what, COUNTING)
    }

    fn import(
        &self,
        root: &[RootTree],
        from: &mut dyn Read,
        format: ImportFormat,
        draw: &dyn Fn() -> LayerId,
    ) -> Result<ImportedHistory, LayerError> {
        import::import(self, root, from, format, draw)
    }

    fn make_template(
        &self,
        below: &TemplateName,
        stack: &Stack,
        name: &TemplateName,
    ) -> Result<TemplateInfo, LayerError> {
        template::make(self, below, stack, name)
    }
}

#[cfg(test)]
#[path = "content/renamed_tests.rs"]
mod renamed_tests;

#[cfg(test)]
#[path = "content/shown_tests.rs"]
mod shown_tests;
