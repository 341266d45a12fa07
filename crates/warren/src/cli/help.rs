//! Help as it is shown: commands in groups, and the options of every command once.

use std::fmt::Write as _;

use clap::Command;

use super::examples::EXAMPLES;

/// The commands of the first page, those that matter most at the beginning.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    ("Begin here", &["run", "shell", "create", "exec", "ls", "cp", "logs", "undo", "rm", "serve"]),
    (
        "The life of a sandbox",
        &["inspect", "rename", "default", "ps", "kill", "pause", "resume", "stop", "move", "why"],
    ),
    ("Going back", &["log", "diff", "blame", "snapshot", "snapshots", "rollback", "redo", "goto", "turn"]),
    ("Trying things out", &["fork", "try", "promote", "bisect"]),
    (
        "Files, ports and code",
        &[
            "up", "down", "sync", "export", "import", "port", "forward", "net", "secret", "tool", "mcp",
            "code",
        ],
    ),
    (
        "The server",
        &["service", "template", "keys", "sessions", "runs", "events", "stats", "health", "backends"],
    ),
    ("This machine", &["context", "upgrade", "doctor", "storage", "config", "tls", "completions"]),
];

const BEGIN: &str = "\
Try:
  warren run python3 -c 'print(\"hello\")'
  warren shell
  warren doctor
  warren help run";

const POINTER: &str = "`warren --help` has the options of every command, such as --url.";

/// A command line with help that is easier to read, and costs more to make.
pub(super) fn improved(root: Command) -> Command {
    let mut root = root.after_help(BEGIN);
    root.build();
    let template = template(&root);
    root.help_template(template).mut_subcommands(described)
}

/// A command without the options of every command, and a line that says where they are.
fn described(command: Command) -> Command {
    let own = command
        .get_after_long_help()
        .or_else(|| command.get_after_help())
        .map(|text| text.ansi().to_string());
    let pointer = match own.or_else(|| examples(&command)) {
        Some(examples) => format!("{examples}\n\n{POINTER}"),
        None => POINTER.to_owned(),
    };
    command
        .mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg })
        .after_long_help(pointer)
        .mut_subcommands(described)
}

/// The examples of the table.
fn examples(command: &Command) -> Option<String> {
    let name = command.get_bin_name()?.strip_prefix("warren ")?;
    let (_, lines) = EXAMPLES.iter().find(|(known, _)| *known == name)?;
    Some(format!("Examples:\n  {}", lines.join("\n  ")))
}

fn template(root: &Command) -> String {
    let header = root.get_styles().get_header();
    let literal = root.get_styles().get_literal();
    let known: Vec<&Command> = root
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .collect();
    let width = known.iter().map(|command| command.get_name().len()).max().unwrap_or(0);
    let grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let others: Vec<&str> =
        known.iter().map(|command| command.get_name()).filter(|name| !grouped(name)).collect();
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    let groups = GROUPS.iter().map(|(title, names)| (*title, names.to_vec()));
    for (title, names) in groups.chain([("Others", others)]).filter(|(_, names)| !names.is_empty()) {
        let _ = writeln!(text, "\n{header}{title}:{header:#}");
        for command in names.iter().filter_map(|name| known.iter().find(|one| one.get_name() == *name)) {
            let (name, about) = (command.get_name(), command.get_about().map(ToString::to_string));
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {}", about.unwrap_or_default());
        }
    }
    text + &format!("\n{header}Options of every command:{header:#}\n{{options}}{{after-help}}\n")
}
