mod content;

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use warren_core::{
    Copied, LayerDriver, LayerError, LayerErrorKind, LayerId, LayerInfo, LayerStore, NewLayer, RootTree,
    Space, Stack,
};

use crate::TemplateStore;

/// The layers under one data directory.
#[derive(Debug)]
pub struct LayerDirectory {
    layers: PathBuf,
}

impl LayerDirectory {
    /// Opens the directory of layers, making it if need be, and reclaims what was left half made or half removed.
    pub fn open(data: &Path, _templates: TemplateStore) -> Result<Self, LayerError> {
        Ok(Self { layers: data.join("layers") })
    }
}

fn missing() -> LayerError {
    LayerError::new(LayerErrorKind::Host, "layers are not kept yet")
}

impl LayerStore for LayerDirectory {
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
