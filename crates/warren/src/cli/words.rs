//! Words that only the server knows, for the scripts of `warren completions`: sandboxes, snapshots,
//! templates, secrets and keys. What the scripts know by themselves is not repeated here.

use std::any::TypeId;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::{Arg, Args, Command, CommandFactory};
use warren_core::network::SecretName;
use warren_core::{SandboxId, SandboxWord, TemplateName};
use warren_wire::client::{Client, SandboxQuery, SnapshotQuery};

use super::Cli;
use crate::error::CliError;
use crate::global::Global;
use crate::server::Place;
use crate::ui;

/// A shell waits for the answer while its user types.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Print the words that may stand at the end of a line, each with a tab and a few words about it.
///
/// If they cannot be had soon, nothing is printed.
#[derive(Debug, Args)]
pub(crate) struct CompleteWords {
    /// The words of the line from the program's name on; the last one is completed
    #[arg(last = true, value_name = "WORD")]
    line: Vec<String>,
}

impl CompleteWords {
    pub(super) fn run(self, global: &Global) -> Result<(), CliError> {
        let mut root = Cli::command();
        root.build();
        let Some((begun, before)) = self.line.split_last() else { return Ok(()) };
        let Some(place) = place(&root, before.get(1..).unwrap_or_default(), begun) else { return Ok(()) };
        let (send, answer) = mpsc::channel();
        let (global, prefix) = (place.global(global), begun.clone());
        thread::spawn(move || drop(send.send(place.words(&global, &prefix))));
        // Whatever is the matter: a complaint would stand in the middle of the line.
        if let Ok(Ok(words)) = answer.recv_timeout(PATIENCE) {
            for (word, about) in words.iter().filter(|(word, _)| word.starts_with(begun) && is_plain(word)) {
                ui::print_line(&format!("{word}\t{about}"))?;
            }
        }
        Ok(())
    }
}

/// Shells put the word into the line as it is, so nothing in it may have a meaning to them.
fn is_plain(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte))
}

/// The place at the end of a line.
#[derive(Debug, Default, PartialEq, Eq)]
struct At {
    kind: Option<Kind>,
    /// A sandbox that an earlier word named.
    sandbox: Option<String>,
    data_dir: Option<String>,
    url: Option<String>,
    key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sandbox,
    Snapshot,
    SandboxOrSnapshot,
    Template,
    Secret,
    Key,
}

/// The kind of word that stands at the end of a line, if it is one of those.
fn place(root: &Command, before: &[String], begun: &str) -> Option<At> {
    let mut at = At::default();
    let (mut command, mut positionals, mut only_positionals) = (root, 0, false);
    let mut wanted: Option<&Arg> = None;
    for word in before {
        if let Some(option) = wanted.take() {
            at.note(option, word);
        } else if only_positionals {
            at.note_positional(command, &mut positionals, word);
        } else if word == "--" {
            only_positionals = true;
        } else if let Some(option) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            wanted = at.option(command, option);
        } else if let Some(subcommand) = command.find_subcommand(word).filter(|_| positionals == 0) {
            command = subcommand;
        } else {
            at.note_positional(command, &mut positionals, word);
        }
    }
    let arg = match wanted {
        Some(option) => option,
        None if begun.starts_with('-') && !only_positionals => return None,
        None => positional(command, positionals).filter(|arg| only_positionals || !arg.is_last_set())?,
    };
    at.kind = Some(kind_of(arg)?);
    Some(at)
}

/// The positional argument of that number; the last one may take all that follow.
fn positional(command: &Command, number: usize) -> Option<&Arg> {
    let last = command.get_positionals().last();
    let repeated = last.filter(|arg| arg.get_num_args().is_some_and(|range| range.max_values() > 1));
    command.get_positionals().nth(number).or(repeated)
}

fn kind_of(arg: &Arg) -> Option<Kind> {
    let value = arg.get_value_parser().type_id();
    if value == TypeId::of::<SandboxWord>() {
        return Some(Kind::Sandbox);
    }
    if value == TypeId::of::<TemplateName>() {
        return Some(Kind::Template);
    }
    if value == TypeId::of::<SecretName>() {
        return Some(Kind::Secret);
    }
    match arg.get_value_names()?.first()?.as_str() {
        "SNAP" | "ENTRY|SNAP" => Some(Kind::Snapshot),
        "SBX|SNAP" | "SNAP|SBX" | "A" | "B" => Some(Kind::SandboxOrSnapshot),
        "KEY-ID" => Some(Kind::Key),
        _ => None,
    }
}

impl At {
    /// The option of that text, without its first dash, if its value is the next word.
    fn option<'a>(&mut self, command: &'a Command, text: &str) -> Option<&'a Arg> {
        let takes_value = |arg: &&Arg| arg.get_action().takes_values();
        if let Some(long) = text.strip_prefix('-') {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(name)).filter(takes_value)?;
            return match value {
                Some(value) => {
                    self.note(arg, value);
                    None
                }
                None => Some(arg),
            };
        }
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            let arg = command.get_arguments().find(|arg| arg.get_short() == Some(letter))?;
            if takes_value(&arg) {
                // The rest of the word is its value.
                return letters.as_str().is_empty().then_some(arg);
            }
        }
        None
    }

    fn note(&mut self, option: &Arg, value: &str) {
        let known = match option.get_id().as_str() {
            "data_dir" => &mut self.data_dir,
            "url" => &mut self.url,
            "key" => &mut self.key,
            _ => return,
        };
        *known = Some(value.to_owned());
    }

    fn note_positional(&mut self, command: &Command, number: &mut usize, word: &str) {
        if positional(command, *number).and_then(kind_of) == Some(Kind::Sandbox) {
            self.sandbox = Some(word.to_owned());
        }
        *number += 1;
    }

    /// The options that the line says.
    fn global(&self, own: &Global) -> Global {
        Global {
            data_dir: self.data_dir.as_ref().map(Into::into).or_else(|| own.data_dir.clone()),
            url: self.url.clone().or_else(|| own.url.clone()),
            key: self.key.clone().or_else(|| own.key.clone()),
            ..own.clone()
        }
    }

    fn words(&self, global: &Global, begun: &str) -> Result<Vec<Word>, CliError> {
        let Some(kind) = self.kind else { return Ok(Vec::new()) };
        let Place::Server(client) = global.place()? else {
            return Ok(if kind == Kind::Sandbox { of_machine(global)? } else { Vec::new() });
        };
        Ok(match kind {
            Kind::Sandbox => sandboxes(&client)?,
            Kind::Snapshot => snapshots(&client, self.sandbox.as_deref(), begun)?,
            Kind::SandboxOrSnapshot => {
                let mut words = snapshots(&client, None, begun)?;
                words.extend(sandboxes(&client)?);
                words
            }
            Kind::Template => {
                let templates = client.templates()?.items;
                templates.into_iter().map(|template| (template.name, template.source)).collect()
            }
            Kind::Secret => {
                let secrets = client.secrets()?.items;
                secrets.into_iter().map(|secret| (secret.name, secret.hosts.join(" "))).collect()
            }
            Kind::Key => {
                let keys = client.keys()?.items.into_iter().filter(|key| key.revoked_at.is_none());
                keys.map(|key| (key.key_id, key.name)).collect()
            }
        })
    }
}

/// A word, and a few words about it.
type Word = (String, String);

/// Names and ids, and the words that mean one of them.
fn sandboxes(client: &Client) -> Result<Vec<Word>, CliError> {
    let mut words = Vec::new();
    for sandbox in client.sandboxes(&SandboxQuery::default())?.items {
        let about = format!(
            "{} {}",
            crate::word::word(&sandbox.status),
            sandbox.image.as_ref().unwrap_or(&sandbox.template)
        );
        words.extend(sandbox.name.clone().map(|name| (name, about.clone())));
        let about = sandbox.name.map_or_else(|| about.clone(), |name| format!("{name} {about}"));
        words.push((sandbox.sandbox_id, about));
    }
    if !words.is_empty() {
        words.push(("@last".to_owned(), "the one that was made last".to_owned()));
        words.push(("@default".to_owned(), "the default sandbox".to_owned()));
    }
    Ok(words)
}

/// Names of snapshots, and ids where one is begun. `SBX:` before the word asks for those of a
/// sandbox.
fn snapshots(client: &Client, sandbox: Option<&str>, begun: &str) -> Result<Vec<Word>, CliError> {
    let (within, begun) = match begun.rsplit_once(':') {
        Some((sandbox, rest)) => (Some(sandbox), rest),
        None => (None, begun),
    };
    let ids_too = begun.starts_with("snap-");
    let wanted = SnapshotQuery {
        sandbox: within.or(sandbox).map(str::to_owned),
        named: !ids_too,
        ..SnapshotQuery::default()
    };
    let before = within.map(|sandbox| format!("{sandbox}:")).unwrap_or_default();
    let mut words = Vec::new();
    for snapshot in client.snapshots(&wanted)?.items {
        let about = format!("of {}", snapshot.sandbox_id);
        words.extend(snapshot.name.map(|name| (format!("{before}{name}"), about.clone())));
        if ids_too {
            words.push((format!("{before}{}", snapshot.snapshot_id), about));
        }
    }
    Ok(words)
}

/// Without a server: the ids that this user can see in the data directory.
fn of_machine(global: &Global) -> Result<Vec<Word>, CliError> {
    let entries = std::fs::read_dir(global.data_dir()?.join("sandboxes")).map_err(CliError::new)?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let ids = names.filter(|name| name.parse::<SandboxId>().is_ok());
    Ok(ids.map(|id| (id, "kept on this machine".to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(line: &str) -> Option<Kind> {
        at(line).and_then(|at| at.kind)
    }

    fn at(line: &str) -> Option<At> {
        let mut root = Cli::command();
        root.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (begun, before) = words.split_last().unwrap();
        place(&root, &before[1..], begun)
    }

    #[test]
    fn each_place_of_a_line_has_its_kind_of_word() {
        for (line, expected) in [
            ("warren rm ", Some(Kind::Sandbox)),
            ("warren rm web d", Some(Kind::Sandbox)),
            ("warren stop a b c ", Some(Kind::Sandbox)),
            ("warren exec ", Some(Kind::Sandbox)),
            ("warren exec --timeout 3s ", Some(Kind::Sandbox)),
            ("warren exec --timeout ", None),
            ("warren exec -u root w", Some(Kind::Sandbox)),
            ("warren exec -uroot w", Some(Kind::Sandbox)),
            ("warren exec web -- l", None),
            ("warren --url http://x exec ", Some(Kind::Sandbox)),
            ("warren --url ", None),
            ("warren shell ", Some(Kind::Sandbox)),
            ("warren create --template ", Some(Kind::Template)),
            ("warren create --from ", Some(Kind::Snapshot)),
            ("warren create --name ", None),
            ("warren rollback web ", Some(Kind::Snapshot)),
            ("warren goto web ", Some(Kind::Snapshot)),
            ("warren fork ", Some(Kind::SandboxOrSnapshot)),
            ("warren diff web ", Some(Kind::SandboxOrSnapshot)),
            ("warren snapshots rm ", Some(Kind::Snapshot)),
            ("warren net allow ", Some(Kind::Sandbox)),
            ("warren net allow web ", None),
            ("warren keys revoke ", Some(Kind::Key)),
            ("warren template rm ", Some(Kind::Template)),
            ("warren secret rm ", Some(Kind::Secret)),
            ("warren rename web ", None),
            ("warren rm --", None),
            ("warren ", None),
            ("warren nonsense ", None),
            ("warren ls ", None),
        ] {
            assert_eq!(kind(line), expected, "{line}");
        }
    }

    #[test]
    fn the_line_says_which_server_and_which_sandbox() {
        let at = at("warren --data-dir=/x --key k rollback --url u web sn").unwrap();
        let told = [&at.data_dir, &at.key, &at.url, &at.sandbox].map(|word| word.as_deref().unwrap());
        assert_eq!(told, ["/x", "k", "u", "web"]);
    }

    #[test]
    fn a_word_that_means_something_to_a_shell_is_not_offered() {
        for word in ["web", "@last", "sbxa:green", "a.b_c"] {
            assert!(is_plain(word), "{word}");
        }
        for word in ["$(x)", "a b", "`x`", "a;b", "a\nb", "a\tb", "é", "*", "~", "!1", "a'b", "\u{1b}[0m"] {
            assert!(!is_plain(word), "{word}");
        }
    }
}
