//! The programs that a fake sandbox knows: as many as the tests need.

use warren_wire::guest::{ByteString, FrameKind, Start, WriteMode};

use super::Guest;

/// The behaviour of a program.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) output: Vec<(FrameKind, Vec<u8>)>,
    /// Present: it ends at once.
    pub(super) exit_code: Option<i32>,
    pub(super) ends_after_ms: Option<u64>,
    pub(super) echoes: bool,
    pub(super) port: Option<u16>,
}

impl Script {
    fn exit(code: i32) -> Self {
        Self { exit_code: Some(code), ..Self::default() }
    }

    fn say(text: impl Into<Vec<u8>>) -> Self {
        Self { output: vec![(FrameKind::Stdout, text.into())], ..Self::exit(0) }
    }

    fn complain(code: i32, text: String) -> Self {
        Self { output: vec![(FrameKind::Stderr, text.into_bytes())], ..Self::exit(code) }
    }
}

/// The behaviour of a program. Its changes of files are made at once.
pub(super) fn script(guest: &Guest, start: &Start) -> Script {
    let words = words(&start.argv);
    let Some((name, rest)) = words.split_first() else { return Script::exit(0) };
    let word = |index: usize| rest.get(index).map(String::as_str).unwrap_or_default();
    match name.rsplit('/').next().unwrap_or_default() {
        "true" => Script::exit(0),
        "false" => Script::exit(1),
        "exit" => Script::exit(word(0).parse().unwrap_or(2)),
        "fail" => Script::complain(3, "failed\n".to_owned()),
        "echo" => Script::say(format!("{}\n", rest.join(" "))),
        "yes" => Script::say("y\n".repeat(word(0).parse().unwrap_or(1))),
        "sleep" => sleep(word(0)),
        "cat" => Script { echoes: true, ..Script::default() },
        "env" => Script::say(environment(guest, start)),
        "listen" => listen(start, word(0)),
        "python3" if rest.iter().any(|word| word == "-") => serve_code(rest),
        "write" => write(guest, word(0), &rest.get(1..).unwrap_or_default().join(" ")),
        "read" => read(guest, word(0)),
        "warren-user" => Script::exit(0),
        "warren-copy" => copy(guest, word(0), word(2)),
        other => Script::complain(127, format!("{other}: not found\n")),
    }
}

/// The words of a command. A shell's text is split at spaces, and a script with a name counts as
/// the program of that name.
fn words(argv: &[ByteString]) -> Vec<String> {
    let mut words: Vec<String> = argv.iter().map(|word| word.to_text().into_owned()).collect();
    if let [shell, flag, _, named @ ..] = words.as_slice()
        && shell.ends_with("sh")
        && flag == "-c"
        && !named.is_empty()
    {
        return named.to_vec();
    }
    if let [shell, flag, text] = words.as_slice()
        && shell.ends_with("sh")
        && matches!(flag.as_str(), "-c" | "-lc")
    {
        words = text.split_whitespace().map(str::to_owned).collect();
    }
    words
}

fn sleep(seconds: &str) -> Script {
    let seconds: f64 = seconds.parse().unwrap_or(0.0);
    let span = std::time::Duration::try_from_secs_f64(seconds).unwrap_or(std::time::Duration::MAX);
    let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Script { ends_after_ms: Some(ms), ..Script::default() }
}

fn environment(guest: &Guest, start: &Start) -> String {
    let own = guest.env.iter().cloned();
    let given = start.env.iter().map(|each| each.to_text().into_owned());
    own.chain(given).map(|each| each + "\n").collect()
}

/// Listens on the port it is told, or finds in `PORT`.
fn listen(start: &Start, word: &str) -> Script {
    let told = word.parse().ok();
    let found = || {
        let text = start.env.iter().map(ByteString::to_text);
        text.filter_map(|each| each.strip_prefix("PORT=").and_then(|port| port.parse().ok())).next_back()
    };
    match told.or_else(found) {
        Some(port) => Script { port: Some(port), ..Script::default() },
        None => Script::complain(2, "listen: which port?\n".to_owned()),
    }
}

/// Prints the port on which it listens, and ignores its script.
fn serve_code(words: &[String]) -> Script {
    match words.last().and_then(|word| word.parse::<u16>().ok()) {
        Some(port) => {
            let output = vec![(FrameKind::Stdout, format!("{port}\n").into_bytes())];
            Script { output, port: Some(port), ..Script::default() }
        }
        None => Script::complain(1, "Traceback:\nNameError: no port\n".to_owned()),
    }
}

fn write(guest: &Guest, path: &str, text: &str) -> Script {
    match guest.tree.write(&ByteString::from(path), WriteMode::Replace, None, true, text.as_bytes()) {
        Ok(()) => Script::exit(0),
        Err(failure) => Script::complain(1, format!("{failure}\n")),
    }
}

/// An archive is one file here, and is copied as it is.
fn copy(guest: &Guest, from: &str, to: &str) -> Script {
    let copied = guest.tree.read(&ByteString::from(from)).and_then(|(_, bytes)| {
        guest.tree.write(&ByteString::from(to), WriteMode::Replace, None, true, &bytes)
    });
    match copied {
        Ok(()) => Script::exit(0),
        Err(failure) => Script::complain(1, format!("{failure}\n")),
    }
}

fn read(guest: &Guest, path: &str) -> Script {
    match guest.tree.read(&ByteString::from(path)) {
        Ok((_, bytes)) => Script::say(bytes),
        Err(failure) => Script::complain(1, format!("{failure}\n")),
    }
}
