//! Words that people know from other tools.

use std::ffi::OsString;

use clap::Parser;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

use super::Cli;

/// Words that are another command of ours.
pub(super) const SAME: &[(&str, &[&str])] =
    &[("templates", &["template", "ls"]), ("images", &["template", "ls"])];

/// Words for which another command is the right one, as it is typed.
pub(super) const INSTEAD: &[(&str, &str)] = &[
    ("attach", "warren shell ID"),
    ("branch", "warren fork ID"),
    ("build", "warren template build base"),
    ("checkout", "warren rollback ID SNAP"),
    ("checkpoint", "warren snapshot ID"),
    ("clone", "warren fork ID"),
    ("commit", "warren snapshot ID"),
    ("connect", "warren shell ID"),
    ("container", "warren ls"),
    ("containers", "warren ls"),
    ("daemon", "warren serve"),
    ("destroy", "warren rm ID"),
    ("download", "warren cp ID:PATH PATH"),
    ("env", "warren exec ID env"),
    ("expose", "warren port ID PORT"),
    ("history", "warren log ID"),
    ("image", "warren template ls"),
    ("info", "warren health"),
    ("init", "warren create"),
    ("launch", "warren create"),
    ("load", "warren template import debian FILE"),
    ("login", "warren shell ID"),
    ("merge", "warren promote ID"),
    ("network", "warren net show ID"),
    ("new", "warren create"),
    ("open", "warren port ID PORT"),
    ("publish", "warren port ID PORT"),
    ("pull", "warren template import debian FILE"),
    ("push", "warren cp PATH ID:PATH"),
    ("restart", "warren stop ID && warren resume ID"),
    ("restore", "warren rollback ID SNAP"),
    ("revert", "warren undo ID"),
    ("sandbox", "warren ls"),
    ("sandboxes", "warren ls"),
    ("save", "warren snapshot ID"),
    ("server", "warren serve"),
    ("spawn", "warren create"),
    ("ssh", "warren shell ID"),
    ("status", "warren health"),
    ("terminate", "warren rm ID"),
    ("top", "warren ps ID"),
    ("upload", "warren cp PATH ID:PATH"),
    ("url", "warren port ID PORT"),
    ("version", "warren --version"),
    ("volume", "warren run -v SRC:DST CMD"),
];

/// Reads a command line whose command is none of ours: as another one, or as an error that names
/// the right one.
pub(super) fn read(mut words: Vec<OsString>, mut error: clap::Error) -> Result<Cli, clap::Error> {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand).cloned() else {
        return Err(error);
    };
    if let Some((_, meant)) = SAME.iter().find(|(word, _)| *word == wrong)
        && let Some(place) = words.iter().skip(1).position(|word| *word == *wrong)
    {
        words.splice(place + 1..place + 2, meant.iter().map(OsString::from));
        return Cli::try_parse_from(words);
    }
    if let Some((_, line)) = INSTEAD.iter().find(|(word, _)| *word == wrong) {
        error.remove(ContextKind::SuggestedSubcommand);
        let tip = StyledStr::from(format!("what you look for may be `{line}`"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    Err(error)
}
