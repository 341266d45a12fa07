//! What a build stands on: a template, or an image that there is a template of.

use warren_core::SnapshotId;
use warren_e2b::rest::templates::StartBuild;

use super::book::Context;
use super::resolve::resolve;
use super::start::Start;
use crate::auth::Caller;
use crate::e2b::control::E2bError;
use crate::state::AppState;

/// Images that clients know under names of their own.
const IMAGES: &[(&str, &str)] =
    &[("e2bdev/base", "base"), ("e2bdev/code-interpreter", "code-interpreter-v1"), ("e2b/base", "base")];

/// Who builds, where nobody is named.
const USER: &str = "user";

/// Where a build begins.
#[derive(Debug, Clone)]
pub(super) struct Base {
    pub(super) from: Option<SnapshotId>,
    pub(super) context: Context,
    /// What runs in its sandboxes, and in those of what is built on it unless that says otherwise.
    pub(super) start: Option<Start>,
    /// Changes whenever what it stands for does.
    pub(super) mark: String,
}

pub(super) async fn find(state: &AppState, caller: &Caller, body: &StartBuild) -> Result<Base, E2bError> {
    let said = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
    match (said(&body.from_template), said(&body.from_image)) {
        (Some(name), None) => of_template(state, caller, &name).await,
        (None, Some(image)) => of_image(state, caller, &image).await,
        _ => Err(E2bError::bad_request("name what to begin with, either `fromTemplate` or `fromImage`")),
    }
}

async fn of_template(state: &AppState, caller: &Caller, name: &str) -> Result<Base, E2bError> {
    let choice = resolve(state, caller, name).await?;
    let known = state.engine.templates().await?;
    let digest = known.into_iter().find(|info| info.name == choice.template).map(|info| info.digest);
    let from = choice.from.as_ref().map(ToString::to_string).unwrap_or_default();
    Ok(Base {
        mark: format!("{} {} {from}", choice.template, digest.unwrap_or_default()),
        start: Start::read(&choice.annotations),
        from: choice.from,
        context: Context {
            template: choice.template,
            env: choice.env,
            workdir: choice.workdir.or_else(|| Some(format!("/home/{USER}").into())),
            user: choice.user.or_else(|| Some(USER.to_owned())),
        },
    })
}

async fn of_image(state: &AppState, caller: &Caller, image: &str) -> Result<Base, E2bError> {
    let names = names_of(image);
    for name in &names {
        match of_template(state, caller, name).await {
            Err(error) if matches!(error.status().as_u16(), 400 | 404) => {}
            found => return found,
        }
    }
    let image: String = image.chars().take(200).flat_map(char::escape_default).collect();
    let name = names.first().map(String::as_str).unwrap_or("NAME");
    Err(E2bError::bad_request(format!(
        "fromImage: images are not pulled here, and no template stands for `{image}`: import the image as a template with \
         `warren template import {name}`, or begin with a template"
    )))
}

/// What a template of an image may be called: with its tag, or without if that says nothing.
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
