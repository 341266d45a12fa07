//! The command line of `sudo`. Options that programs and people use are those of the well-known
//! `sudo`; the rest are refused by name.

use warren_wire::guest::{ByteString, Elevate, Runs};

const USAGE: &str = "usage: sudo [-EHikns] [-u user] [VAR=value ...] [command [argument ...]]";
const VERSION: &str = concat!("sudo of a Warren sandbox ", env!("CARGO_PKG_VERSION"));

/// Variables of the caller that a program gets without being asked: they are about the terminal and
/// the language.
const KEPT: &[&str] =
    &["COLORTERM", "COLUMNS", "DISPLAY", "LANG", "LANGUAGE", "LINES", "LS_COLORS", "TERM", "TZ"];

/// Variables that belong to the user a program runs as, and the path that it is found by.
const OF_THE_USER: &[&str] = &["HOME", "LOGNAME", "MAIL", "PATH", "SHELL", "USER"];

type Variables = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// To remember or forget a password: there is none.
    Nothing,
    Text(&'static str),
    Run(Box<Elevate>),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OptionError {
    #[error("the option `{0}` is not known here\n{USAGE}")]
    Unknown(String),
    #[error("the option `{0}` needs a value\n{USAGE}")]
    NoValue(String),
    #[error("no command is given\n{USAGE}")]
    NoCommand,
}

#[derive(Debug, Default)]
struct Options {
    user: Option<Vec<u8>>,
    preserve: bool,
    shell: bool,
    login: bool,
    idle: bool,
    text: Option<&'static str>,
}

pub(crate) fn read(arguments: Vec<Vec<u8>>, environment: Variables) -> Result<Asked, OptionError> {
    let mut rest = arguments.into_iter().peekable();
    let mut options = Options::default();
    while let Some(word) = rest.next_if(|word| word.len() > 1 && word.starts_with(b"-")) {
        if word == b"--" {
            break;
        }
        let mut value = || rest.next();
        match word.strip_prefix(b"--") {
            Some(name) => options.take_long(name, &mut value)?,
            None => options.take_short(&word, &mut value)?,
        }
    }
    if let Some(text) = options.text {
        return Ok(Asked::Text(text));
    }
    let mut set = Vec::new();
    while let Some(word) = rest.next_if(|word| is_assignment(word)) {
        set.push(ByteString::from(word));
    }
    let argv: Vec<ByteString> = rest.map(ByteString::from).collect();
    let runs = match (options.login, options.shell) {
        (true, _) => Runs::LoginShell,
        (false, true) => Runs::Shell,
        (false, false) => Runs::Program,
    };
    match (argv.is_empty(), runs) {
        (true, Runs::Program) if options.idle => return Ok(Asked::Nothing),
        (true, Runs::Program) => return Err(OptionError::NoCommand),
        _ => {}
    }
    let env = kept(environment, &options).chain(set).collect();
    let user = options.user.map(ByteString::from);
    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
    Ok(Asked::Run(Box::new(Elevate { user, argv, runs, env, cwd: (&cwd).into() })))
}

impl Options {
    fn take_long(
        &mut self,
        name: &[u8],
        value: &mut dyn FnMut() -> Option<Vec<u8>>,
    ) -> Result<(), OptionError> {
        let (name, given) = match name.iter().position(|byte| *byte == b'=') {
            Some(at) => (&name[..at], Some(name[at + 1..].to_vec())),
            None => (name, None),
        };
        let text = String::from_utf8_lossy(name).into_owned();
        match name {
            b"user" => {
                let user = given.or_else(value).ok_or_else(|| OptionError::NoValue(format!("--{text}")))?;
                self.user = Some(user);
            }
            // The names do not matter: all variables are the caller's own.
            b"preserve-env" => self.preserve = true,
            b"login" => self.login = true,
            b"shell" => self.shell = true,
            b"non-interactive" | b"set-home" | b"stdin" | b"background" => {}
            b"validate" | b"reset-timestamp" | b"remove-timestamp" => self.idle = true,
            b"help" => self.text = Some(USAGE),
            b"version" => self.text = Some(VERSION),
            _ => return Err(OptionError::Unknown(format!("--{text}"))),
        }
        Ok(())
    }

    /// Letters may share a dash; one that has a value takes the rest of the word, or else the next
    /// word.
    fn take_short(
        &mut self,
        word: &[u8],
        value: &mut dyn FnMut() -> Option<Vec<u8>>,
    ) -> Result<(), OptionError> {
        for (index, letter) in word.iter().enumerate().skip(1) {
            let name = || format!("-{}", char::from(*letter));
            match letter {
                b'u' | b'p' | b'C' | b'T' => {
                    let attached = Some(word[index + 1..].to_vec()).filter(|text| !text.is_empty());
                    let given = attached.or_else(value).ok_or_else(|| OptionError::NoValue(name()))?;
                    if *letter == b'u' {
                        self.user = Some(given);
                    }
                    return Ok(());
                }
                b'E' => self.preserve = true,
                b'i' => self.login = true,
                b's' => self.shell = true,
                b'n' | b'H' | b'S' | b'b' => {}
                b'k' | b'K' | b'v' => self.idle = true,
                b'h' => self.text = Some(USAGE),
                b'V' => self.text = Some(VERSION),
                _ => return Err(OptionError::Unknown(name())),
            }
        }
        Ok(())
    }
}

/// The caller's variables that go along.
fn kept(environment: Variables, options: &Options) -> impl Iterator<Item = ByteString> + use<> {
    let (preserve, login) = (options.preserve, options.login);
    let goes = move |key: &[u8]| {
        let named = |list: &[&str]| list.iter().any(|name| name.as_bytes() == key);
        match (login, preserve) {
            (true, _) => key == b"TERM",
            (false, true) => !named(OF_THE_USER),
            (false, false) => named(KEPT) || key.starts_with(b"LC_"),
        }
    };
    let pairs = environment.into_iter().filter(move |(key, _)| goes(key));
    pairs.map(|(key, value)| [&key[..], b"=", &value].concat().into())
}

fn is_assignment(word: &[u8]) -> bool {
    let name = word.split(|byte| *byte == b'=').next().unwrap_or_default();
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    name.len() < word.len() && !name.is_empty() && name.iter().all(letter) && !name[0].is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: &[(&str, &str)] = &[
        ("HOME", "/home/user"),
        ("LANG", "C"),
        ("LC_ALL", "C"),
        ("MINE", "1"),
        ("PATH", "/x"),
        ("TERM", "vt"),
    ];

    fn asked(line: &str) -> Result<Asked, OptionError> {
        let words = line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect();
        let caller = CALLER.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()));
        read(words, caller.collect())
    }

    fn run(line: &str) -> (Option<String>, Vec<String>, Runs, Vec<String>) {
        let Ok(Asked::Run(request)) = asked(line) else { panic!("{line}: {:?}", asked(line)) };
        let texts = |texts: Vec<ByteString>| texts.iter().map(|text| text.to_text().into_owned()).collect();
        let user = request.user.map(|user| user.to_text().into_owned());
        (user, texts(request.argv), request.runs, texts(request.env))
    }

    #[test]
    fn words_end_the_options_and_go_along_untouched() {
        assert_eq!(run("-n ls -l --user x").1, ["ls", "-l", "--user", "x"]);
        assert_eq!(run("-- -strange -n").1, ["-strange", "-n"]);
        assert_eq!(run("A=1 env A=2 B=3").1, ["env", "A=2", "B=3"]);
        assert_eq!(run("--non-interactive --set-home id").1, ["id"]);
    }

    #[test]
    fn a_user_is_given_in_every_usual_way() {
        for line in ["-u bob id", "-ubob id", "-nu bob id", "--user bob id", "--user=bob id", "-Hnubob id"] {
            assert_eq!(run(line).0.as_deref(), Some("bob"), "{line}");
        }
        assert_eq!(run("id").0, None);
    }

    #[test]
    fn only_what_concerns_terminal_and_language_goes_along_unasked() {
        let plain = ["LANG=C", "LC_ALL=C", "TERM=vt"];
        assert_eq!(run("id").3, plain);
        assert_eq!(run("X=1 Y=a=b id").3, ["LANG=C", "LC_ALL=C", "TERM=vt", "X=1", "Y=a=b"]);
        assert_eq!(run("-E id").3, ["LANG=C", "LC_ALL=C", "MINE=1", "TERM=vt"]);
        assert_eq!(run("--preserve-env=MINE id").3, ["LANG=C", "LC_ALL=C", "MINE=1", "TERM=vt"]);
        assert_eq!(run("-i id").3, ["TERM=vt"]);
    }

    #[test]
    fn shells_need_no_command() {
        assert_eq!((run("-s").1.len(), run("-s").2), (0, Runs::Shell));
        assert_eq!((run("-i -u bob").1.len(), run("-i").2), (0, Runs::LoginShell));
        assert_eq!(asked(""), Err(OptionError::NoCommand));
        assert_eq!(asked("-n"), Err(OptionError::NoCommand));
    }

    #[test]
    fn there_is_no_password_to_remember() {
        for line in ["-v", "-k", "-K", "-nv"] {
            assert_eq!(asked(line), Ok(Asked::Nothing), "{line}");
        }
        assert_eq!(run("-k id").1, ["id"]);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert_eq!(asked("-q id"), Err(OptionError::Unknown("-q".to_owned())));
        assert_eq!(asked("--chroot=/ id"), Err(OptionError::Unknown("--chroot".to_owned())));
        assert_eq!(asked("-u"), Err(OptionError::NoValue("-u".to_owned())));
        assert_eq!(asked("--help"), Ok(Asked::Text(USAGE)));
    }
}
