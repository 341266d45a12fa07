//! The command line on a real terminal, which tmux plays: colours, widths, progress and keys.

use std::cell::Cell;
use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

use warren_e2e::{TestEnv, TestServer, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal with a shell in it, on a tmux server of its own.
struct Screen {
    socket: String,
    lines: Cell<u32>,
}

impl Screen {
    /// Opens a terminal of this many columns.
    fn open(env: &TestEnv, columns: u16) -> Self {
        let screen = Self { socket: env.path("tmux").display().to_string(), lines: Cell::new(0) };
        let shell = "env -u NO_COLOR PS1='$ ' sh";
        screen.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &columns.to_string(), "-y", "40", shell]);
        screen.sees("$");
        screen
    }

    fn tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("/usr/bin/tmux");
        let output = command.arg("-S").arg(&self.socket).args(words).env("TERM", "xterm-256color").output();
        output.expect("tmux is installed: scripts/install-test-deps")
    }

    /// The text on the screen now; with colours, if wanted.
    fn text(&self, more: &[&str]) -> String {
        let shown = self.tmux(&[&["capture-pane", "-p"], more].concat());
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }

    fn types(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
    }

    /// Clears the screen, types a line and waits until it has ended. Answers the screen.
    fn runs(&self, line: &str) -> String {
        // Each has another last line, so that none is taken for the one before.
        let number = self.lines.replace(self.lines.get() + 1);
        self.types(&format!("clear; {line}; echo line {number} ended with $?"));
        self.sees_line(&format!("line {number} ended with "));
        self.text(&[])
    }

    /// Types Ctrl-C, and insists that the command ended of it.
    #[track_caller]
    fn interrupts(&self) {
        self.tmux(&["send-keys", "C-c"]);
        eventually(PATIENCE, "the shell asks again", || {
            self.text(&[]).trim_end().lines().last().is_some_and(|line| line == "$")
        });
        self.types("echo it ended with $?");
        self.sees_line("it ended with 130");
    }

    #[track_caller]
    fn sees(&self, text: &str) {
        eventually(PATIENCE, &format!("the screen shows `{text}`"), || self.text(&[]).contains(text));
    }

    /// Waits for a line that begins so; what was typed does not.
    #[track_caller]
    fn sees_line(&self, beginning: &str) {
        eventually(PATIENCE, &format!("a line begins with `{beginning}`"), || {
            self.text(&[]).lines().any(|line| line.starts_with(beginning))
        });
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// A command as a shell takes it.
fn line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let set = command.get_envs().filter_map(|(name, value)| {
        let name = name.to_str().filter(|name| name.starts_with("WARREN_"))?;
        Some(format!("{name}='{}' ", value?.to_string_lossy()))
    });
    set.collect::<String>() + &words.join(" ")
}

#[test]
fn tables_fit_the_terminal_and_have_colours() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let label = format!("long={}", "x".repeat(60));
    let id = server.warren(["create", "--label", &label]).ok().line();
    fs::write(env.path("list"), line(&server.command(["ls"]))).unwrap();
    let list = format!(". {}", env.path("list").display());
    let screen = Screen::open(&env, 80);
    let narrow = screen.runs(&list);
    let row = narrow.lines().find(|line| line.starts_with(&id)).unwrap_or_else(|| panic!("{narrow}"));
    assert!(row.ends_with('…') && row.chars().count() <= 80, "{narrow}");
    let coloured = screen.text(&["-e"]);
    assert!(coloured.contains("\x1b[32mready"), "{coloured:?}");
    screen.tmux(&["resize-window", "-x", "200", "-y", "40"]);
    let wide = screen.runs(&list);
    assert!(wide.contains(&label), "{wide}");
    let plain = screen.runs(&format!("export NO_COLOR=1; {list}"));
    assert!(plain.contains(&id) && !screen.text(&["-e"]).contains("\x1b[32m"), "{plain}");
    drop(screen);
    server.finish();
}

#[test]
fn a_copy_shows_how_far_it_is_and_an_interruption_leaves_nothing() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    server.shell(&id, "truncate -s 8G /tmp/large");
    fs::create_dir(env.path("here")).unwrap();
    let target = env.path("here").join("large");
    let copy = server.command(["cp", &format!("{id}:/tmp/large"), &target.display().to_string()]);
    fs::write(env.path("copy"), line(&copy)).unwrap();
    let screen = Screen::open(&env, 100);
    screen.types(&format!(". {}", env.path("copy").display()));
    screen.sees("% ");
    screen.sees("/s");
    screen.sees(" left");
    screen.interrupts();
    assert_eq!(fs::read_dir(env.path("here")).unwrap().count(), 0, "half a file is left");
    assert!(!screen.text(&[]).contains("% "), "the line of progress is left");
    drop(screen);
    server.finish();
}

#[test]
fn an_export_shows_how_far_it_is_and_forks_how_many_there_are() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    server.shell(&id, "truncate -s 8G /tmp/large");
    fs::create_dir(env.path("here")).unwrap();
    let target = env.path("here").join("all.tar").display().to_string();
    let export = server.command(["export", &id, "--path", "/tmp", "-o", &target]);
    fs::write(env.path("export"), line(&export)).unwrap();
    fs::write(env.path("fork"), line(&server.command(["fork", &id, "-n", "40"]))).unwrap();
    let screen = Screen::open(&env, 100);
    screen.types(&format!(". {}", env.path("export").display()));
    screen.sees("% ");
    screen.sees("/s");
    screen.sees(" left");
    screen.interrupts();
    assert_eq!(fs::read_dir(env.path("here")).unwrap().count(), 0, "half a file is left");
    screen.types(&format!("clear; . {}", env.path("fork").display()));
    screen.sees(" of 40");
    drop(screen);
    server.finish();
}

#[test]
fn an_upload_that_is_interrupted_leaves_no_half_file() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let large = fs::File::create(env.path("large")).unwrap();
    large.set_len(8 << 30).unwrap();
    let copy = server.command(["cp", &env.path("large").display().to_string(), &format!("{id}:/tmp/large")]);
    fs::write(env.path("copy"), line(&copy)).unwrap();
    let screen = Screen::open(&env, 100);
    screen.types(&format!(". {}", env.path("copy").display()));
    screen.sees("% ");
    screen.interrupts();
    eventually(PATIENCE, "nothing is left inside", || server.shell(&id, "ls -A /tmp").is_empty());
    drop(screen);
    server.finish();
}

#[test]
fn a_run_on_a_terminal_has_one_and_ends_with_control_c() {
    let env = TestEnv::new();
    let screen = Screen::open(&env, 90);
    fs::write(env.path("look"), line(&env.command(["run", "-it", "sh", "-c", "tty; stty size"]))).unwrap();
    let shown = screen.runs(&format!(". {}", env.path("look").display()));
    assert!(shown.contains("/dev/pts/0\n40 90\nline 0 ended with 0"), "{shown}");
    fs::write(env.path("wait"), line(&env.command(["run", "sh", "-c", "echo begun; sleep 600"]))).unwrap();
    screen.types(&format!("clear; . {}; echo ended with $?", env.path("wait").display()));
    screen.sees_line("begun");
    screen.tmux(&["send-keys", "C-c"]);
    screen.sees("ended with 130");
    assert!(env.census().is_empty(), "the sandbox is left");
}
