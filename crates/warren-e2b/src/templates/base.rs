//! The base of a build: a template, or an image that there is a template of.

use warren_core::ImageAddress;
use warren_engine::Beginning;
use warren_face::auth::Caller;

use super::resolve::resolve;
use crate::error::E2bError;
use crate::rest::templates::StartBuild;
use crate::state::E2b;

/// Images that clients know under names of their own.
const IMAGES: &[(&str, &str)] =
    &[("e2bdev/base", "base"), ("e2bdev/code-interpreter", "code-interpreter-v1"), ("e2b/base", "base")];

/// The beginning of a build.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) beginning: Beginning,
    /// The image that its template is pulled as first.
    pub(super) pull: Option<ImageAddress>,
}

pub(super) async fn find(state: &E2b, caller: &Caller, body: &StartBuild) -> Result<Base, E2bError> {
    let said = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
    match (said(&body.from_template), said(&body.from_image)) {
        (Some(name), None) => {
            Ok(Base { beginning: resolve(state, caller, &name).await?.beginning, pull: None })
        }
        (None, Some(image)) => of_image(state, caller, image.trim()).await,
        _ => Err(E2bError::bad_request("name what to begin with, either `fromTemplate` or `fromImage`")),
    }
}

async fn of_image(state: &E2b, caller: &Caller, image: &str) -> Result<Base, E2bError> {
    let names = names_of(image);
    let address = image.parse::<ImageAddress>().ok();
    let templates = state.engine.templates().await?;
    // Different images may have templates of the same name.
    let is_another = |beginning: &Beginning| {
        let known = templates.iter().find(|info| info.name == beginning.context.template);
        known
            .and_then(|info| info.image.as_ref())
            .is_some_and(|known| address.as_ref().is_none_or(|address| *known != address.to_string()))
    };
    for name in &names {
        match resolve(state, caller, name).await {
            Err(error) if matches!(error.status().as_u16(), 400 | 404) => {}
            Ok(found) if is_another(&found.beginning) => {}
            found => return Ok(Base { beginning: found?.beginning, pull: None }),
        }
    }
    let open = address.filter(|address| state.engine.is_open_registry(address.registry()));
    if let Some((address, name)) = open.and_then(|address| Some((address.clone(), address.template_name()?)))
    {
        return Ok(Base { beginning: Beginning::of_template(name), pull: Some(address) });
    }
    let image: String = image.chars().take(200).flat_map(char::escape_default).collect();
    Err(E2bError::bad_request(format!(
        "fromImage: no template stands for `{image}`, and its registry is not among those of `images.open`: an administrator \
         makes one with `warren template pull {image}`, or begin with a template"
    )))
}

/// The possible names of an image's template: with its tag, and without if that is the usual one.
fn names_of(image: &str) -> Vec<String> {
    let image = image.trim().to_ascii_lowercase();
    let (path, tag) = match image.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (image.as_str(), None),
    };
    let path = path.strip_prefix("docker.io/").unwrap_or(path);
    let path = path.strip_prefix("library/").unwrap_or(path);
    if let Some((_, name)) = IMAGES.iter().find(|(known, _)| *known == path) {
        return vec![(*name).to_owned()];
    }
    let name = path.replace('/', "-");
    match tag {
        Some(tag) if tag != "latest" => vec![format!("{name}-{tag}")],
        _ => vec![name],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_template_of_its_name() {
        assert_eq!(names_of("e2bdev/base:latest"), ["base"]);
        assert_eq!(names_of("E2BDEV/code-interpreter"), ["code-interpreter-v1"]);
        assert_eq!(names_of("ubuntu"), ["ubuntu"]);
        assert_eq!(names_of("ubuntu:latest"), ["ubuntu"]);
        assert_eq!(names_of("docker.io/library/python:3.12-slim"), ["python-3.12-slim"]);
        assert_eq!(names_of("localhost:5000/a/b"), ["localhost:5000-a-b"]);
    }
}
