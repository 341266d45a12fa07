use serde::Deserialize;

use super::{architecture, parse, platform};
use crate::digest::Digest;
use crate::import::error::ImageError;
use crate::manifest::TemplateConfig;

/// The parts of an image's configuration that are used. Everything else in it is passed over
/// unread.
#[derive(Debug, Deserialize)]
pub(super) struct ImageConfig {
    architecture: Option<String>,
    os: Option<String>,
    config: Option<ProcessConfig>,
    rootfs: Option<RootFs>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ProcessConfig {
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    diff_ids: Option<Vec<Digest>>,
}

impl ImageConfig {
    pub(super) fn read(part: &str, text: &[u8]) -> Result<Self, ImageError> {
        let config: Self = parse(part, text)?;
        let ours = config.os.as_deref().is_none_or(|os| os == "linux")
            && config.architecture.as_deref().is_none_or(|name| name == architecture());
        if ours {
            return Ok(config);
        }
        let (os, machine) = (config.os.as_deref(), config.architecture.as_deref());
        Err(ImageError::Platform { architecture: architecture(), found: vec![platform(os, machine)] })
    }

    /// The digests of the uncompressed layers, lowest first.
    pub(super) fn diff_ids(&self) -> Option<&[Digest]> {
        self.rootfs.as_ref()?.diff_ids.as_deref()
    }

    pub(super) fn into_template(self) -> Result<TemplateConfig, ImageError> {
        let given = self.config.unwrap_or_default();
        let defaults = TemplateConfig::default();
        let text = |given: Option<String>, default| given.filter(|text| !text.is_empty()).unwrap_or(default);
        let mut command = given.entrypoint.unwrap_or_default();
        command.extend(given.cmd.unwrap_or_default());
        let config = TemplateConfig {
            env: given.env.unwrap_or(defaults.env),
            user: text(given.user, defaults.user),
            workdir: text(given.working_dir, defaults.workdir),
            command,
        };
        config.check().map_err(ImageError::Config)?;
        Ok(config)
    }
}
