use super::config::ImageConfig;
use super::manifest::{Descriptor, Index, MANIFEST, Manifest, check_layer, check_size, collect};
use super::members::Members;
use super::{Image, Layer, LayerBytes, architecture, check_digest, check_layers, parse};
use crate::digest::Digest;
use crate::import::error::{ImageError, ImportError};
use crate::import::limits::Meter;
use crate::manifest::SourceKind;

pub(super) fn open(members: &Members, meter: &Meter<'_>) -> Result<Image, ImportError> {
    let index: Index = parse("index.json", &members.document("index.json", meter)?)?;
    let (found, others) = collect(index, &mut |descriptor| blob(descriptor, members, meter))?;
    let manifest_descriptor = match found.as_slice() {
        [] => return Err(ImageError::Platform { architecture: architecture(), found: others }.into()),
        [only] => only,
        several => return Err(ImageError::Ambiguous { images: several.len() }.into()),
    };
    let manifest: Manifest = parse(MANIFEST, &blob(manifest_descriptor, members, meter)?)?;
    check_layers(manifest.layers.len(), meter)?;
    let config = ImageConfig::read("the image configuration", &blob(&manifest.config, members, meter)?)?;
    let layers = manifest.layers.iter().map(|layer| find_layer(layer, members)).collect::<Result<_, _>>()?;
    Ok(Image {
        kind: SourceKind::OciImage,
        digest: manifest_descriptor.digest.clone(),
        config: config.into_template()?,
        layers,
    })
}

/// Reads a document by its digest, and checks that it is the one.
fn blob(descriptor: &Descriptor, members: &Members, meter: &Meter<'_>) -> Result<Vec<u8>, ImportError> {
    let name = blob_name(&descriptor.digest);
    let text = members.document(&name, meter)?;
    check_size(&name, descriptor.size, text.len() as u64)?;
    check_digest(&name, Some(&descriptor.digest), &Digest::of(&text))?;
    Ok(text)
}

fn find_layer(descriptor: &Descriptor, members: &Members) -> Result<Layer, ImageError> {
    check_layer(descriptor)?;
    let name = blob_name(&descriptor.digest);
    let content = members.get(&name)?;
    check_size(&name, descriptor.size, content.length())?;
    Ok(Layer { name, content: LayerBytes::Here(content), digest: Some(descriptor.digest.clone()) })
}

fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}
