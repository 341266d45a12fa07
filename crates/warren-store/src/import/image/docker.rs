use std::io::Read as _;

use serde::Deserialize;

use super::config::ImageConfig;
use super::members::Members;
use super::{Image, Layer, LayerBytes, check_digest, check_layers, parse};
use crate::digest::Digest;
use crate::import::error::{ImageError, ImportError};
use crate::import::limits::Meter;
use crate::import::stream::Compression;
use crate::manifest::SourceKind;
use crate::tree::TreePath;

const MAGIC: u64 = 8;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SavedImage {
    config: String,
    #[serde(default)]
    layers: Vec<String>,
}

pub(super) fn open(members: &Members, meter: &Meter<'_>) -> Result<Image, ImportError> {
    let mut saved: Vec<SavedImage> = parse("manifest.json", &members.document("manifest.json", meter)?)?;
    let image = match (saved.pop(), saved.len()) {
        (Some(image), 0) => image,
        (None, _) => return Err(ImageError::NoLayers.into()),
        (Some(_), others) => return Err(ImageError::Ambiguous { images: others + 1 }.into()),
    };
    check_layers(image.layers.len(), meter)?;
    let config_name = member_name(&image.config)?;
    let text = members.document(&config_name, meter)?;
    let digest = Digest::of(&text);
    check_digest(&config_name, named_digest(&config_name).as_ref(), &digest)?;
    let config = ImageConfig::read(&config_name, &text)?;
    let diff_ids = config.diff_ids().unwrap_or_default();
    if !diff_ids.is_empty() && diff_ids.len() != image.layers.len() {
        return Err(ImageError::LayerCount { layers: image.layers.len(), diff_ids: diff_ids.len() }.into());
    }
    let mut layers = Vec::new();
    for (index, name) in image.layers.iter().enumerate() {
        layers.push(find_layer(&member_name(name)?, diff_ids.get(index), members)?);
    }
    Ok(Image { kind: SourceKind::DockerImage, digest, config: config.into_template()?, layers })
}

/// The configuration names the digests of uncompressed layers, which is how `docker save` writes
/// them.
fn find_layer(name: &str, diff_id: Option<&Digest>, members: &Members) -> Result<Layer, ImportError> {
    let content = members.get(name)?;
    let mut start = Vec::new();
    content.clone().take(MAGIC).read_to_end(&mut start).map_err(ImportError::Read)?;
    let digest = match Compression::of(&start)? {
        Compression::None => diff_id.cloned(),
        _ => named_digest(name),
    };
    Ok(Layer { name: name.to_owned(), content: LayerBytes::Here(content), digest })
}

/// The digest in a name such as `blobs/sha256/<hex>` or `<hex>.json`.
fn named_digest(name: &str) -> Option<Digest> {
    let last = name.rsplit('/').next()?;
    let hex = last.split('.').next()?;
    format!("sha256:{hex}").parse().ok()
}

fn member_name(name: &str) -> Result<String, ImageError> {
    let missing = || ImageError::Missing { part: name.chars().take(200).collect() };
    let path = TreePath::parse(name.as_bytes(), 16).map_err(|_| missing())?;
    path.as_path().to_str().map(str::to_owned).ok_or_else(missing)
}
