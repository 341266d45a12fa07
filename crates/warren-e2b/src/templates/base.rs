//! The base of a build: a template, or an image that there is a template of.

use warren_engine::Beginning;
use warren_face::auth::Caller;

use super::resolve::resolve;
use crate::error::E2bError;
use crate::rest::templates::StartBuild;
use crate::state::E2b;

/// Images that clients know under names of their own.
const IMAGES: &[(&str, &str)] =
    &[("e2bdev/base", "base"), ("e2bdev/code-interpreter", "code-interpreter-v1"), ("e2b/base", "base")];

pub(super) async fn find(state: &E2b, caller: &Caller, body: &StartBuild) -> Result<Beginning, E2bError> {
    let said = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
    match (said(&body.from_template), said(&body.from_image)) {
        (Some(name), None) => Ok(resolve(state, caller, &name).await?.beginning),
        (None, Some(image)) => of_image(state, caller, &image).await,
        _ => Err(E2bError::bad_request("name what to begin with, either `fromTemplate` or `fromImage`")),
    }
}

async fn of_image(state: &E2b, caller: &Caller, image: &str) -> Result<Beginning, E2bError> {
    let names = names_of(image);
    for name in &names {
        match resolve(state, caller, name).await {
            Err(error) if matches!(error.status().as_u16(), 400 | 404) => {}
            found => return Ok(found?.beginning),
        }
    }
    let image: String = image.chars().take(200).flat_map(char::escape_default).collect();
    let name = names.first().map(String::as_str).unwrap_or("NAME");
    Err(E2bError::bad_request(format!(
        "fromImage: images are not pulled here, and no template stands for `{image}`: import the image as a template with \
         `warren template import {name}`, or begin with a template"
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
