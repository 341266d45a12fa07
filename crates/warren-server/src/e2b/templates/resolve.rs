use std::collections::BTreeMap;
use std::path::PathBuf;

use warren_core::{ByteSize, Cpus, Owner, SnapshotId, TemplateInfo, TemplateName};

use super::book::{Book, Context, Outcome, Template, missing};
use super::reference::{DEFAULT_TAG, Reference};
use super::store::Books;
use crate::auth::Caller;
use crate::code;
use crate::e2b::control::E2bError;
use crate::state::AppState;

/// What else a name may stand for where the server has no template that is called so, the best first. The last column says what to
/// do if there is none of them.
const STANDS_FOR: &[(&str, &[&str], &str)] =
    &[("base", &["base", HOST], ""), (CODE, &[CODE, "code-interpreter", HOST], TO_RUN_CODE)];

const HOST: &str = "host";
const CODE: &str = "code-interpreter-v1";
const TO_RUN_CODE: &str =
    "make it with `warren template build code-interpreter`, or install python3-ipykernel on this machine";

/// What a new sandbox is to begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// What clients are told that the template is: its id, or the name of one of the server's own.
    pub(crate) id: String,
    /// The name of one that has an id.
    pub(crate) alias: Option<String>,
    /// What the engine starts from.
    pub(crate) template: TemplateName,
    /// A state on top of it.
    pub(crate) from: Option<SnapshotId>,
    /// Below what the client asks for.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) user: Option<String>,
    pub(crate) workdir: Option<PathBuf>,
    pub(crate) cpus: Option<Cpus>,
    pub(crate) memory: Option<ByteSize>,
    /// To be written into the sandbox's record, for [`super::start()`].
    pub(crate) annotations: BTreeMap<String, String>,
}

/// What a client calls a template, found. Another owner's is one that does not exist.
pub(crate) async fn resolve(state: &AppState, caller: &Caller, text: &str) -> Result<Choice, E2bError> {
    let reference = Reference::parse(text)?;
    let book = Books::of(state, &caller.owner).await?;
    if let Some(found) = of_book(&book, &caller.owner, &reference)? {
        state.books.count_use(&caller.owner, &found.id, state.clock.unix_ms());
        return Ok(found);
    }
    of_server(&state.engine.templates().await?, &reference, code::host_can())
}

/// What the owner has of that name.
fn of_book(book: &Book, owner: &Owner, reference: &Reference) -> Result<Option<Choice>, E2bError> {
    if reference.owner.as_deref().is_some_and(|named| named != owner.as_str()) {
        return Err(missing(&reference.name));
    }
    let Some((id, template)) = book.find(&reference.name) else {
        return if reference.owner.is_some() { Err(missing(&reference.name)) } else { Ok(None) };
    };
    let tag = reference.tag_or_default();
    let image = template.image(tag).ok_or_else(|| unbuilt(template, &reference.name, tag))?;
    let Context { template: below, env, user, workdir } = image.context.clone();
    Ok(Some(Choice {
        id: id.clone(),
        alias: template.name.clone(),
        template: below,
        from: Some(image.snapshot.clone()),
        env,
        user,
        workdir,
        cpus: cpus(template),
        memory: template.memory_mb.map(ByteSize::mib),
        annotations: image.start.as_ref().map(|start| start.annotations()).unwrap_or_default(),
    }))
}

/// A template of which there is nothing to begin with, in the words that clients look for.
fn unbuilt(template: &Template, name: &str, tag: &str) -> E2bError {
    let why = match template.newest().map(|(_, build)| &build.outcome) {
        Some(Outcome::Failed { message, .. }) => format!("its last build failed: {message}"),
        Some(Outcome::Waiting | Outcome::Begun) => "it is not built yet".to_owned(),
        Some(Outcome::Ready(_)) | None => "it has no finished build of that tag".to_owned(),
    };
    E2bError::not_found(format!("template '{name}' with tag '{tag}' not found: {why}"))
}

pub(super) fn cpus(template: &Template) -> Option<Cpus> {
    template.cpus.map(|count| Cpus::from_milli(count.saturating_mul(1000)))
}

/// A template of the server, for all owners. `host` runs code only where the machine itself can.
fn of_server(
    known: &[TemplateInfo],
    reference: &Reference,
    host_runs_code: bool,
) -> Result<Choice, E2bError> {
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
    Ok(Choice {
        id: name.to_owned(),
        alias: None,
        template: info.name.clone(),
        from: None,
        env: BTreeMap::new(),
        user: None,
        workdir: None,
        cpus: None,
        memory: None,
        annotations: BTreeMap::new(),
    })
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
            broken: name.starts_with("broken").then(|| "its digest".to_owned()),
        };
        names.iter().map(info).collect()
    }

    fn chosen(names: &[&str], text: &str) -> Option<(String, String)> {
        let choice = of_server(&known(names), &Reference::parse(text).unwrap(), false).ok()?;
        Some((choice.id, choice.template.to_string()))
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
    fn a_missing_interpreter_says_how_to_make_it() {
        let reference = Reference::parse("code-interpreter-v1").unwrap();
        let error = of_server(&known(&["host"]), &reference, false).unwrap_err();
        assert!(format!("{error:?}").contains("warren template build code-interpreter"));
        let choice = of_server(&known(&["host"]), &reference, true).unwrap();
        assert_eq!((choice.id.as_str(), choice.template.as_str()), ("code-interpreter-v1", "host"));
    }
}
