use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;

use super::Cli;

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

/// `docs/cli.md` is what `--help` says. `make bless` writes it.
#[test]
fn the_reference_page_is_true() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let mut page = String::from(
        "# The command line\n\nWhat `--help` says of each command; a test keeps this page true.\n",
    );
    let mut root = Cli::command().term_width(110);
    root.build();
    describe(&mut root, &mut page);
    if std::env::var_os("WARREN_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap_or_default(),
        page,
        "run `make bless` and look at the difference"
    );
}

fn describe(command: &mut clap::Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or("warren").to_owned();
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim()).unwrap();
    let visible = command
        .get_subcommands_mut()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help");
    for subcommand in visible {
        describe(subcommand, page);
    }
}

#[test]
fn every_command_that_a_hint_names_exists() {
    for code in warren_core::ErrorCode::ALL {
        let quoted = code.hint().split('`').skip(1).step_by(2);
        for line in quoted.filter_map(|text| text.strip_prefix("warren ")) {
            let mut command = Cli::command();
            for word in line.split_whitespace() {
                let known = match word.strip_prefix("--") {
                    Some(flag) => command.get_arguments().any(|arg| arg.get_long() == Some(flag)),
                    None => match command.find_subcommand(word).cloned() {
                        Some(subcommand) => {
                            command = subcommand;
                            true
                        }
                        None => command.get_positionals().next().is_some(),
                    },
                };
                assert!(known, "{code:?}: `warren {line}` has no `{word}`");
            }
        }
    }
}
