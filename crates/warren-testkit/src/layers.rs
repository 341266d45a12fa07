use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use warren_core::{
    Copied, Diff, DiffOptions, Export, ImportFormat, ImportedHistory, LayerContent, LayerDriver, LayerError,
    LayerErrorKind, LayerId, LayerInfo, LayerStore, Merge, MergeOrder, NewLayer, RootTree, Space, Stack,
    TemplateInfo, TemplateName,
};

/// Layers of a [`crate::FakeIsolation`]'s sandboxes.
#[derive(Debug)]
pub struct FakeLayers {
    layers: PathBuf,
}

impl FakeLayers {
    pub fn new() -> Self {
        Self { layers: PathBuf::from("/fake/layers") }
    }
}

impl Default for FakeLayers {
    fn default() -> Self {
        Self::new()
    }
}

fn missing() -> LayerError {
    LayerError::new(LayerErrorKind::Host, "layers are not kept yet")
}

impl LayerContent for FakeLayers {
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

impl LayerStore for FakeLayers {
    fn driver(&self) -> LayerDriver {
        LayerDriver::Overlay
    }

    fn place(&self, id: &LayerId) -> PathBuf {
        self.layers.join(id.as_str())
    }

    fn stand_on(&self, stack: &Stack, _: &mut [RootTree]) -> Result<(), LayerError> {
        if stack.0.is_empty() { Ok(()) } else { Err(missing()) }
    }

    fn stack_of(&self, _: &[RootTree]) -> Stack {
        Stack::default()
    }

    fn copy(&self, _: BorrowedFd<'_>, _: &LayerId) -> Result<Copied, LayerError> {
        Err(missing())
    }

    fn commit(&self, _: &NewLayer) -> Result<(), LayerError> {
        Err(missing())
    }

    fn sync(&self, _: &[LayerId]) -> Result<(), LayerError> {
        Err(missing())
    }

    fn space(&self, _: &LayerId, _: Option<u64>) -> Result<Option<Space>, LayerError> {
        Err(missing())
    }

    fn squash(&self, _: &[LayerId], _: &LayerId) -> Result<(), LayerError> {
        Err(missing())
    }

    fn layers(&self) -> Result<Vec<LayerInfo>, LayerError> {
        Ok(Vec::new())
    }

    fn remove(&self, _: &LayerId) -> Result<(), LayerError> {
        Err(missing())
    }
}
