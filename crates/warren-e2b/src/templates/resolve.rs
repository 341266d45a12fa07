use std::collections::BTreeMap;

use warren_core::{
    ByteSize, Cpus, DEFAULT_TAG, ImageRef, RootImage, RootImageName, TemplateInfo, TemplateName,
};
use warren_engine::{Beginning, FoundImage};
use warren_face::auth::Caller;
use warren_face::code;

use crate::error::E2bError;
use crate::state::E2b;

/// Other templates that a name may stand for where the server has none of that name, the best
/// first. The last column says what to do if there is none of them.
const STANDS_FOR: &[(&str, &[&str], &str)] =
    &[("base", &["base", HOST], ""), (CODE, &[CODE, "code-interpreter", HOST], TO_RUN_CODE)];

const HOST: &str = "host";
const CODE: &str = "code-interpreter-v1";
const TO_RUN_CODE: &str =
    "make it with `warren template build code-interpreter`, or install python3-ipykernel on this machine";

/// The template or image that a new sandbox begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The template's id as clients are told, or the name of one of the server's own.
    pub(crate) id: String,
    /// The name of one that has an id.
    pub(crate) alias: Option<String>,
    pub(crate) beginning: Beginning,
    /// An image of a backend that it stands for.
    pub(crate) image: Option<RootImage>,
    pub(crate) cpus: Option<Cpus>,
    pub(crate) memory: Option<ByteSize>,
}

/// Finds the template that a client names. Another owner's is one that does not exist.
pub(crate) async fn resolve(state: &E2b, caller: &Caller, text: &str) -> Result<Choice, E2bError> {
    let reference: ImageRef = text.parse()?;
    if let Some(found) = state.engine.as_(caller).images().find(&reference).await? {
        let FoundImage { id, name, beginning, cpus, memory } = found;
        return Ok(Choice { id: id.to_string(), alias: name, beginning, image: None, cpus, memory });
    }
    if let Some(choice) = of_backend(&state.settings.images, &reference) {
        return Ok(choice);
    }
    of_server(&state.engine.templates().await?, &reference, code::host_can())
}

/// An image that a name stands for by the settings.
fn of_backend(images: &BTreeMap<TemplateName, RootImageName>, reference: &ImageRef) -> Option<Choice> {
    let plain = reference.tag_or_default() == DEFAULT_TAG;
    let image = images.get(&reference.name.as_str().parse().ok()?).filter(|_| plain)?.clone().into();
    let beginning = Beginning::of_template(TemplateName::host());
    let id = reference.name.to_string();
    Some(Choice { id, alias: None, beginning, image: Some(image), cpus: None, memory: None })
}

/// A template of the server, for all owners. `host` runs code only where the machine itself can.
fn of_server(known: &[TemplateInfo], reference: &ImageRef, host_runs_code: bool) -> Result<Choice, E2bError> {
    let name = reference.name.as_str();
    let row = STANDS_FOR.iter().find(|(called, ..)| *called == name);
    let own = [name];
    let names = row.map_or(own.as_slice(), |(_, names, _)| names);
    let fits = |found: &str| found != HOST || name != CODE || host_runs_code;
    let usable = |name: &&str| {
        known.iter().find(|info| info.name.as_str() == *name && fits(name) && info.broken.is_none())
    };
    let found = names.iter().find_map(usable).filter(|_| reference.tag_or_default() == DEFAULT_TAG);
    let Some(info) = found else {
        let advice = row.map(|(.., advice)| *advice).filter(|advice| !advice.is_empty());
        let advice = advice.unwrap_or("build it, or import it with `warren template import`");
        return Err(E2bError::not_found(format!("template '{name}' not found: {advice}")));
    };
    let beginning = Beginning::of_template(info.name.clone());
    Ok(Choice { id: name.to_owned(), alias: None, beginning, image: None, cpus: None, memory: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(names: &[&str]) -> Vec<TemplateInfo> {
        let info = |name: &&str| TemplateInfo {
            name: name.parse().unwrap(),
            digest: String::new(),
            size_bytes: 0,
            created_unix_ms: 0,
            source: "archive".to_owned(),
            user: "root".to_owned(),
            workdir: "/".to_owned(),
            image: None,
            broken: name.starts_with("broken").then(|| "its digest".to_owned()),
        };
        names.iter().map(info).collect()
    }

    fn template_of(choice: &Choice) -> &str {
        choice.beginning.context.template.as_str()
    }

    fn chosen(names: &[&str], text: &str) -> Option<(String, String)> {
        let choice = of_server(&known(names), &text.parse().unwrap(), false).ok()?;
        Some((choice.id.clone(), template_of(&choice).to_owned()))
    }

    #[test]
    fn well_known_names_stand_for_what_there_is() {
        let pair = |id: &str, template: &str| Some((id.to_owned(), template.to_owned()));
        assert_eq!(chosen(&["host"], "base"), pair("base", "host"));
        assert_eq!(chosen(&["base", "host"], "base:default"), pair("base", "base"));
        assert_eq!(chosen(&["host", "python-3.12"], "python-3.12"), pair("python-3.12", "python-3.12"));
        let code = "code-interpreter-v1";
        assert_eq!(chosen(&["code-interpreter", "host"], code), pair(code, "code-interpreter"));
        assert_eq!(chosen(&["host"], code), None);
        assert_eq!(chosen(&["host", "broken-1"], "broken-1"), None);
        assert_eq!(chosen(&["host"], "base:v2"), None);
    }

    #[test]
    fn a_name_may_stand_for_an_image_of_a_backend() {
        let images = BTreeMap::from([("base".parse().unwrap(), "python:3.12".parse().unwrap())]);
        let image =
            |text: &str| of_backend(&images, &text.parse().unwrap())?.image.map(|image| image.to_string());
        assert_eq!(image("base").as_deref(), Some("python:3.12"));
        assert_eq!((image("base:v2"), image("host")), (None, None));
    }

    #[test]
    fn a_missing_interpreter_says_how_to_make_it() {
        let reference = "code-interpreter-v1".parse().unwrap();
        let error = of_server(&known(&["host"]), &reference, false).unwrap_err();
        assert!(format!("{error:?}").contains("warren template build code-interpreter"));
        let choice = of_server(&known(&["host"]), &reference, true).unwrap();
        assert_eq!((choice.id.as_str(), template_of(&choice)), ("code-interpreter-v1", "host"));
    }
}
