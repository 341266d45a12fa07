//! `image.json` of a template: the image that it was pulled as. It lies beside the manifest, which
//! older versions of Warren read as well and which says all that they need.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

const FILE_NAME: &str = "image.json";
const MAX_BYTES: u64 = 1 << 20;

/// The image of a registry that a template was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PulledImage {
    /// Its whole name: `docker.io/library/python:3.12`.
    pub address: String,
    /// Its layers as the registry has them, lowest first. They are kept as long as a template is
    /// made of them, so that another image with the same ones need not fetch them.
    pub layers: Vec<Digest>,
}

impl PulledImage {
    /// The image of a template, if it was pulled. One that cannot be read is none: the template
    /// serves all the same.
    pub(crate) fn of(template: &Path) -> Option<Self> {
        let mut text = Vec::new();
        File::open(template.join(FILE_NAME)).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(crate) fn write(&self, template: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        File::create_new(template.join(FILE_NAME))?.write_all(&text)
    }

    /// The images of all templates in a directory.
    pub(crate) fn all(templates: &Path) -> io::Result<Vec<Self>> {
        let paths: io::Result<Vec<PathBuf>> =
            fs::read_dir(templates)?.map(|entry| Ok(entry?.path())).collect();
        Ok(paths?.iter().filter_map(|path| Self::of(path)).collect())
    }
}
