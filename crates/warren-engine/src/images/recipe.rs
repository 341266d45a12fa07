//! The recipe of a build, and the keys by which its steps are found again.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use warren_core::{BuildStep, ImageAddress, StartCommands};

use super::{Beginning, ImageError};

/// The most steps of one build.
const MOST_STEPS: usize = 500;

/// How an image is to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// The state that the first step starts from.
    pub base: Beginning,
    /// The image of an open registry that the base's template is pulled as, first of all.
    pub pull: Option<ImageAddress>,
    /// A user who is made before the first step, and who does the steps if the base names nobody.
    pub user: Option<String>,
    pub steps: Vec<RecipeStep>,
    /// Absent: those of the base.
    pub start: Option<StartCommands>,
    /// Nothing of earlier builds is used.
    pub force: bool,
}

/// One step, as its client wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipeStep {
    pub step: BuildStep,
    /// An earlier outcome is not to be used, neither of this step nor of those after it.
    pub force: bool,
}

/// A step with what is needed to find its outcome again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyedStep {
    /// From 1.
    pub(super) number: usize,
    pub(super) step: BuildStep,
    /// A digest of this step and all before it.
    pub(super) key: String,
    pub(super) force: bool,
}

impl KeyedStep {
    /// The step as its client wrote it.
    pub(super) fn plain(self) -> RecipeStep {
        RecipeStep { step: self.step, force: self.force }
    }
}

/// Checks and numbers steps. `base` says what they are done on top of.
pub(super) fn keyed(steps: Vec<RecipeStep>, base: &str) -> Result<Vec<KeyedStep>, ImageError> {
    if steps.len() > MOST_STEPS {
        return Err(ImageError::TooManySteps { most: MOST_STEPS });
    }
    let mut key = digest(&["base", base]);
    let number = |(index, RecipeStep { step, force }): (usize, RecipeStep)| {
        step.validate().map_err(|source| ImageError::Step { index, source })?;
        let mut words = vec![key.as_str()];
        words.extend(step.words());
        key = digest(&words);
        Ok(KeyedStep { number: index + 1, key: key.clone(), step, force })
    };
    steps.into_iter().enumerate().map(number).collect()
}

/// Each part is counted, so that no two lists of parts are the same text.
fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part.as_bytes());
    }
    HEXLOWER.encode(&hash.finalize())
}

/// Puts the values of variables in their places: `$NAME` and `${NAME}`; `\$` is a dollar sign. One
/// that is not known is empty. Nothing is run.
pub(super) fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(['$', '\\']) {
        out.push_str(&rest[..place]);
        rest = &rest[place..];
        if let Some(after) = rest.strip_prefix("\\$") {
            out.push('$');
            rest = after;
            continue;
        }
        match variable(rest) {
            Some((name, after)) => {
                out.push_str(env.get(name).map(String::as_str).unwrap_or_default());
                rest = after;
            }
            None => {
                let mut letters = rest.chars();
                out.extend(letters.next());
                rest = letters.as_str();
            }
        }
    }
    out.push_str(rest);
    out
}

/// A variable at the beginning of a text, and the text after it.
fn variable(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('$')?;
    let is_name = |name: &str| {
        name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if let Some(inner) = text.strip_prefix('{') {
        return inner.split_once('}').filter(|(name, _)| is_name(name));
    }
    let end =
        text.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    is_name(name).then_some((name, after))
}

/// A path as seen from a directory, without `.` and `..`. One that ended with a slash still does.
pub(super) fn from_directory(path: &str, directory: &Path) -> String {
    let joined = directory.join(path);
    let mut plain = PathBuf::from("/");
    for part in joined.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    let directory = path.ends_with('/') || path == "." || path.ends_with("/.");
    let text = plain.to_string_lossy().into_owned();
    if directory && text != "/" { text + "/" } else { text }
}

#[cfg(test)]
#[path = "recipe_tests.rs"]
mod tests;
