//! Images that the engine has. None is fetched: what a sandbox starts from is the operator's
//! choice.

use std::path::PathBuf;

use bollard::models::{ImageConfig, ImageInspect};
use warren_core::{
    DiskSpace, FoundImage, IsolationError, IsolationErrorKind, MountAccess, RootImage, RootTree,
};

use super::Engine;
use super::client::{CallError, Client};
use super::upper::DRIVER;

/// The machine's architecture as images name it.
const ARCHITECTURE: &str = "amd64";

/// Finds an image that sandboxes can start on, with its settings.
pub(super) fn find(engine: &Engine, asked: &RootImage) -> Result<(FoundImage, ImageConfig), IsolationError> {
    let name = asked.digest.as_deref().unwrap_or(asked.name.as_str());
    let invalid = |why: String| IsolationError::new(IsolationErrorKind::Invalid, why);
    let found = engine.client.image(name).map_err(|error| match error {
        CallError::NotFound(_) => {
            invalid(format!("the Docker engine has no image `{asked}`: `docker pull {asked}` fetches it"))
        }
        error => error.during(format!("look for the image `{asked}`")),
    })?;
    unfit(&found).map_or(Ok(()), |why| Err(invalid(format!("the image `{asked}` {why}"))))?;
    engine.learn();
    let lowers = if engine.abilities.shows() { directories(&found) } else { Vec::new() };
    let digest = found.id.ok_or_else(|| invalid(format!("the image `{asked}` has no id")))?;
    let image = RootImage { name: asked.name.clone(), digest: Some(digest) };
    let trees = vec![RootTree { at: "/".into(), lowers, access: MountAccess::ReadWrite }];
    Ok((FoundImage { image, trees }, found.config.unwrap_or_default()))
}

/// The directories of an image, the topmost first. They are looked at and never written to.
fn directories(image: &ImageInspect) -> Vec<PathBuf> {
    let Some(driver) = image.graph_driver.as_ref().filter(|driver| driver.name == DRIVER) else {
        return Vec::new();
    };
    let paths = ["UpperDir", "LowerDir"].into_iter().filter_map(|key| driver.data.get(key));
    paths.flat_map(|paths| paths.split(':')).filter(|path| !path.is_empty()).map(PathBuf::from).collect()
}

/// Why no sandbox can start on an image; `None` if one can.
fn unfit(image: &ImageInspect) -> Option<String> {
    let (system, architecture) = (image.os.as_deref(), image.architecture.as_deref());
    if system.is_some_and(|system| system != "linux") || architecture.is_some_and(|word| word != ARCHITECTURE)
    {
        let word = |word: Option<&str>| word.unwrap_or("unknown").to_owned();
        return Some(format!(
            "is for {}/{}, and this machine is linux/{ARCHITECTURE}",
            word(system),
            word(architecture)
        ));
    }
    None
}

/// Room on the disk where the engine keeps its containers.
pub(super) fn space(client: &Client) -> Result<Option<DiskSpace>, IsolationError> {
    let action = "ask how much room the Docker engine has";
    let info = client.info().map_err(|error| error.during(action))?;
    let Some(root) = info.docker_root_dir.map(PathBuf::from) else { return Ok(None) };
    let found = rustix::fs::statvfs(&root).map_err(|errno| {
        IsolationError::caused(IsolationErrorKind::Host, action, std::io::Error::from(errno))
    })?;
    Ok(Some(DiskSpace {
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
        free_inodes: found.f_favail,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(system: &str, architecture: &str) -> ImageInspect {
        let some = |word: &str| Some(word.to_owned());
        ImageInspect { os: some(system), architecture: some(architecture), ..ImageInspect::default() }
    }

    #[test]
    fn an_image_for_another_machine_is_refused_by_what_it_is_for() {
        assert_eq!(unfit(&image("linux", "amd64")), None);
        assert!(unfit(&image("linux", "arm64")).is_some_and(|why| why.contains("linux/arm64")));
        assert!(unfit(&image("windows", "amd64")).is_some_and(|why| why.contains("windows/amd64")));
    }
}
