use std::io::{Read, Write};
use std::path::Path;

use warren_core::{
    Diff, DiffOptions, Export, ImportFormat, ImportedHistory, LayerContent, LayerError, LayerErrorKind,
    LayerId, Merge, MergeOrder, NewLayer, RootTree, Stack, TemplateInfo, TemplateName,
};

use super::LayerDirectory;

fn missing() -> LayerError {
    LayerError::new(LayerErrorKind::Host, "layers are not kept yet")
}

impl LayerContent for LayerDirectory {
    fn diff(&self, _: &[RootTree], _: &Stack, _: &Stack, _: &DiffOptions) -> Result<Diff, LayerError> {
        Err(missing())
    }

    fn differs(&self, _: &[RootTree], _: &Stack, _: &Stack, _: &Path) -> Result<bool, LayerError> {
        Err(missing())
    }

    fn merge(&self, _: &[RootTree], _: &MergeOrder<'_>, _: Option<&NewLayer>) -> Result<Merge, LayerError> {
        Err(missing())
    }

    fn export(&self, _: &[RootTree], _: &Export<'_>, _: &mut dyn Write) -> Result<(), LayerError> {
        Err(missing())
    }

    fn import(
        &self,
        _: &mut dyn Read,
        _: ImportFormat,
        _: &dyn Fn() -> LayerId,
    ) -> Result<ImportedHistory, LayerError> {
        Err(missing())
    }

    fn make_template(
        &self,
        _: &TemplateName,
        _: &Stack,
        _: &TemplateName,
    ) -> Result<TemplateInfo, LayerError> {
        Err(missing())
    }
}
