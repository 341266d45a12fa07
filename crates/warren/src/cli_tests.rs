use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;

use super::{Cli, Command, examples, habits, help, parse, parse_by_whole_table, quick};
use crate::exit;

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
    let mut root = help::improved(Cli::command().term_width(110));
    describe(&mut root, &mut page);
    page.push_str(
        "\n## Exit codes\n\n`run`, `exec`, `shell` and `try` exit with the code of the command that they ran. A signal that ended it \
         counts as 128 and its number, as in a shell. Warren's own:\n\n| exit code | meaning |\n|---|---|\n| 0 | done |\n",
    );
    for (code, meaning) in exit::TABLE {
        writeln!(page, "| {code} | {meaning} |").unwrap();
    }
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
fn frequent_commands_are_read_the_same_without_the_whole_table() {
    let words = |line: &str| -> Vec<std::ffi::OsString> { line.split(' ').map(Into::into).collect() };
    for line in [
        "warren run true",
        "warren --data-dir /d run --net none -m 512m -e A=b -- sh -c exec",
        "warren run --json --data-dir /d --url http://h:1 -q python3 -c run",
        "warren -q exec web ls -l",
        "warren create --name web --net allow --allow a.example",
        "warren ls --json",
        "warren rm a b",
        "warren cp a:/x .",
        "warren snapshot web",
        "warren fork web",
        "warren shell",
    ] {
        let quick = quick::read(&words(line)).unwrap_or_else(|| panic!("{line}"));
        let whole = parse_by_whole_table(words(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(format!("{quick:?}"), format!("{whole:?}"), "{line}");
    }
    for line in
        ["warren", "warren run", "warren run --help", "warren ru x", "warren template ls", "warren rm -x"]
    {
        assert!(quick::read(&words(line)).is_none(), "{line}");
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

fn read(line: &str) -> Result<Cli, clap::Error> {
    parse(line.split_whitespace().map(Into::into).collect())
}

/// The words of the command that a line runs.
fn command_in(line: &str) -> String {
    let shown = match read(line).unwrap_or_else(|error| panic!("{line}: {error}")).command {
        Command::Run(run) => format!("{run:?}"),
        Command::Exec(exec) => format!("{exec:?}"),
        Command::Try(attempt) => format!("{attempt:?}"),
        other => panic!("{line} is {other:?}"),
    };
    let (_, words) = shown.rsplit_once("command: ").expect("it is the last field");
    words.trim_end_matches(" }").to_owned()
}

const ID: &str = "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa";

#[test]
fn all_from_the_commands_name_on_belongs_to_the_command() {
    for (line, words) in [
        ("warren run ls -la --json", r#"["ls", "-la", "--json"]"#),
        ("warren run -- ls -la", r#"["ls", "-la"]"#),
        ("warren run ls -- -la", r#"["ls", "--", "-la"]"#),
        ("warren run -- -odd --name", r#"["-odd", "--name"]"#),
        (
            "warren run -it --rm -m 1g -p 8080:80 -v /a:/b -w /b -u root -e A=1 bash -c true",
            r#"["bash", "-c", "true"]"#,
        ),
        ("warren run --url x ls --url y", r#"["ls", "--url", "y"]"#),
        (&format!("warren exec {ID} ls -la"), r#"["ls", "-la"]"#),
        (&format!("warren exec -it {ID} bash"), r#"["bash"]"#),
        (&format!("warren exec {ID} --timeout 5s -- ls"), r#"["ls"]"#),
        (&format!("warren try {ID} make -j4 --check true"), r#"["make", "-j4", "--check", "true"]"#),
    ] {
        assert_eq!(command_in(line), words, "{line}");
    }
    for wrong in ["warren run", "warren run --nosuch ls", "warren run --rm --keep ls", "warren run -d -t ls"]
    {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn words_of_other_tools_are_understood() {
    let root = Cli::command();
    let names = |word: &str| {
        root.get_subcommands()
            .any(|one| one.get_name() == word || one.get_all_aliases().any(|alias| alias == word))
    };
    for (word, meant) in habits::SAME {
        assert!(!names(word), "{word} is a command");
        let line = format!("warren --data-dir /x {word} --json");
        let direct = format!("warren --data-dir /x {} --json", meant.join(" "));
        assert_eq!(format!("{:?}", read(&line).unwrap()), format!("{:?}", read(&direct).unwrap()));
    }
    for (word, line) in habits::INSTEAD {
        assert!(!names(word), "{word} is a command");
        let error = read(&format!("warren {word} x")).unwrap_err();
        assert_eq!(error.exit_code(), i32::from(exit::USAGE));
        let told = error.to_string();
        assert!(told.contains(line) && told.matches("tip:").count() == 1, "{told}");
        for line in line.split(" && ") {
            let line = line
                .replace("ID", ID)
                .replace("SNAP", "green")
                .replace("PORT", "80")
                .replace("SRC", "/a")
                .replace("DST", "/b");
            let kind = read(&line).err().map(|error| error.kind());
            assert!(matches!(kind, None | Some(clap::error::ErrorKind::DisplayVersion)), "{line}: {kind:?}");
        }
    }
    for (alias, name) in [("list", "ls"), ("delete", "rm"), ("start", "resume"), ("show", "inspect")] {
        assert_eq!(root.find_subcommand(alias).map(clap::Command::get_name), Some(name));
    }
}

#[test]
fn help_has_every_command_once_and_options_of_all_once() {
    let page = help::improved(Cli::command()).render_long_help().to_string();
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        let listed = page.lines().filter(|line| line.starts_with(&format!("  {name} "))).count();
        assert_eq!(listed, 1, "{name}: {page}");
    }
    assert!(!page.contains("Others:"), "give new commands a group in help.rs: {page}");
    assert!(page.contains("--data-dir"));
    let of_run = read("warren run --help").unwrap_err().to_string();
    assert!(!of_run.contains("--data-dir") && of_run.contains("warren --help"), "{of_run}");
    assert_eq!(read("warren help run").unwrap_err().to_string(), of_run);
}

/// Commands that print nothing of their own: they pass on what others write, or are silent.
const WITHOUT_JSON: &[&str] = &[
    "serve",
    "mcp",
    "service rest",
    "shell",
    "up",
    "down",
    "kill",
    "cp",
    "forward",
    "rm",
    "snapshots rm",
    "snapshots name",
    "try",
    "export",
    "code restart",
    "code interrupt",
    "code rm",
    "secret set",
    "secret rm",
    "keys revoke",
    "template rm",
    "context add",
    "context use",
    "context rm",
    "completions",
];

#[test]
fn every_command_that_prints_can_print_json() {
    fn look(command: &clap::Command, name: &str, without: &mut Vec<String>) {
        let below: Vec<_> =
            command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help").collect();
        if below.is_empty() && !command.get_arguments().any(|arg| arg.get_long() == Some("json")) {
            without.push(name.to_owned());
        }
        for one in below {
            look(one, format!("{name} {}", one.get_name()).trim_start(), without);
        }
    }
    let mut without = Vec::new();
    look(&Cli::command(), "", &mut without);
    without.retain(|name| !WITHOUT_JSON.contains(&name.as_str()));
    assert!(
        without.is_empty(),
        "give these --json, or say in WITHOUT_JSON that they print nothing: {without:?}"
    );
}

#[test]
fn every_command_has_examples_that_can_be_typed() {
    fn look(command: &clap::Command, without: &mut Vec<String>) {
        let below: Vec<_> =
            command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help").collect();
        let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        if below.is_empty() && !after.contains("  warren ") {
            without.push(command.get_bin_name().unwrap_or_default().to_owned());
        }
        below.into_iter().for_each(|one| look(one, without));
    }
    let mut without = Vec::new();
    look(&help::improved(Cli::command()), &mut without);
    assert!(without.is_empty(), "{without:?}");
    for line in examples::EXAMPLES.iter().flat_map(|(_, lines)| *lines) {
        let words = line
            .replace("$(warren ls -q)", ID)
            .replace("$(warren ls -q --label task=tests)", ID)
            .replace("$id", ID);
        for part in
            words.split(['|', '<', '>', '&']).map(str::trim).filter(|part| part.starts_with("warren "))
        {
            read(part).unwrap_or_else(|error| panic!("{part}: {error}"));
        }
    }
}
