//! From a start request to what `execve` takes: checked strings, the environment and the places
//! where the program may lie.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use warren_wire::guest::{AgentConfig, ByteString, Failure, FailureCode, MOST_COMMAND_BYTES, Start};

use crate::failure::refuse;
use crate::identity::Identity;

const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const DEFAULT_TERM: &[u8] = b"xterm-256color";

const MAX_ENTRIES: usize = 16 * 1024;
const MAX_TAG_BYTES: usize = 1024;

/// Checks what can be known without the kernel.
pub(crate) fn check(start: &Start) -> Result<(), Failure> {
    let invalid = |message: &str| Err(refuse(FailureCode::Invalid, message));
    let texts = || start.argv.iter().chain(&start.env);
    if start.argv.first().is_none_or(ByteString::is_empty) {
        return invalid("start a process: the argument list names no program");
    }
    if texts().chain(&start.cwd).any(|text| text.as_bytes().contains(&0)) {
        return invalid("start a process: an argument, variable or directory contains a zero byte");
    }
    if start.env.iter().any(|entry| entry.as_bytes().iter().position(|byte| *byte == b'=').unwrap_or(0) == 0)
    {
        return invalid("start a process: a variable is not of the form KEY=VALUE");
    }
    let bytes = texts().fold(0usize, |sum, text| sum.saturating_add(text.as_bytes().len()));
    if bytes > MOST_COMMAND_BYTES {
        return Err(Failure::too_large(bytes, MOST_COMMAND_BYTES));
    }
    if start.argv.len().saturating_add(start.env.len()) > MAX_ENTRIES {
        return invalid("start a process: there are too many arguments and variables");
    }
    if start.tag.as_ref().is_some_and(|tag| tag.as_bytes().len() > MAX_TAG_BYTES) {
        return invalid("start a process: the tag is too long");
    }
    Ok(())
}

/// The environment: the sandbox's own, what every program expects, and on top what the call says.
#[derive(Debug)]
pub(crate) struct Environment<'a>(BTreeMap<&'a [u8], &'a [u8]>);

impl<'a> Environment<'a> {
    pub(crate) fn assemble(start: &'a Start, config: &'a AgentConfig, identity: &'a Identity) -> Self {
        let mut variables: BTreeMap<_, _> = config.env.iter().filter_map(split).collect();
        let mut default = |key: &'static str, value: &'a [u8]| {
            variables.entry(key.as_bytes()).or_insert(value);
        };
        default("HOME", identity.home.as_os_str().as_bytes());
        default("SHELL", identity.shell.as_os_str().as_bytes());
        default("PATH", DEFAULT_PATH);
        if let Some(name) = &identity.name {
            default("USER", name.as_bytes());
            default("LOGNAME", name.as_bytes());
        }
        if start.terminal.is_some() {
            default("TERM", DEFAULT_TERM);
        }
        variables.extend(start.env.iter().filter_map(split));
        Self(variables)
    }

    pub(crate) fn to_strings(&self) -> Result<Vec<CString>, Failure> {
        self.0.iter().map(|(key, value)| c_string([*key, b"=", *value].concat())).collect()
    }

    /// Where a program of this name may lie, in the order of `PATH`. A name with a slash is a path.
    pub(crate) fn places_of(&self, name: &ByteString) -> Result<Vec<CString>, Failure> {
        let name = name.as_bytes();
        if name.contains(&b'/') {
            return Ok(vec![c_string(name.to_vec())?]);
        }
        let path = self.0.get(b"PATH".as_slice()).copied().unwrap_or(DEFAULT_PATH);
        path.split(|byte| *byte == b':')
            .map(|place| {
                // As shells do: an empty element of PATH is the working directory.
                let place = if place.is_empty() { b"." } else { place };
                c_string([place, b"/", name].concat())
            })
            .collect()
    }
}

/// Where a process starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkingDirectory {
    pub(crate) path: PathBuf,
    /// Nobody asked for this directory by name, so `/` does as well if it is missing.
    pub(crate) replaceable: bool,
}

impl WorkingDirectory {
    pub(crate) fn choose(start: &Start, config: &AgentConfig, identity: &Identity) -> Self {
        match start.cwd.as_ref().or(config.cwd.as_ref()).filter(|cwd| !cwd.is_empty()) {
            Some(cwd) => Self { path: identity.home.join(cwd.as_path()), replaceable: false },
            None => Self { path: identity.home.clone(), replaceable: true },
        }
    }
}

pub(crate) fn path_string(path: &Path) -> Result<CString, Failure> {
    c_string(path.as_os_str().as_bytes().to_vec())
}

pub(crate) fn c_string(bytes: Vec<u8>) -> Result<CString, Failure> {
    CString::new(bytes).map_err(|_| {
        refuse(FailureCode::Invalid, "start a process: a text for the kernel contains a zero byte")
    })
}

fn split(entry: &ByteString) -> Option<(&[u8], &[u8])> {
    let bytes = entry.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            uid: 1000,
            gid: 1000,
            groups: vec![1000],
            home: "/home/user".into(),
            name: Some("user".to_owned()),
            shell: "/bin/sh".into(),
        }
    }

    fn start(argv: &[&str], env: &[&str]) -> Start {
        Start {
            argv: argv.iter().map(|text| ByteString::from(*text)).collect(),
            env: env.iter().map(|text| ByteString::from(*text)).collect(),
            ..Start::default()
        }
    }

    fn texts(strings: Vec<CString>) -> Vec<String> {
        strings.into_iter().map(|string| string.into_string().unwrap()).collect()
    }

    #[test]
    fn the_call_overrides_the_sandbox_and_the_sandbox_the_defaults() {
        let config = AgentConfig { env: vec!["A=1".into(), "HOME=/srv".into()], ..AgentConfig::default() };
        let start = start(&["x"], &["A=2=3", "PATH=/opt"]);
        let identity = identity();
        let strings = texts(Environment::assemble(&start, &config, &identity).to_strings().unwrap());
        let expected = ["A=2=3", "HOME=/srv", "LOGNAME=user", "PATH=/opt", "SHELL=/bin/sh", "USER=user"];
        assert_eq!(strings, expected);
    }

    #[test]
    fn a_program_is_looked_up_in_the_path_of_the_call() {
        let (config, identity) = (AgentConfig::default(), identity());
        let call = start(&["x"], &["PATH=/a::b"]);
        let environment = Environment::assemble(&call, &config, &identity);
        assert_eq!(texts(environment.places_of(&"ls".into()).unwrap()), ["/a/ls", "./ls", "b/ls"]);
        assert_eq!(texts(environment.places_of(&"./ls".into()).unwrap()), ["./ls"]);
    }

    #[test]
    fn malformed_starts_are_refused() {
        let many = vec!["x"; MAX_ENTRIES + 1];
        let long = "x".repeat(MOST_COMMAND_BYTES + 1);
        let cases: [(&[&str], &[&str]); 8] = [
            (&[], &[]),
            (&[""], &[]),
            (&["a\0b"], &[]),
            (&["a"], &["novalue"]),
            (&["a"], &["=value"]),
            (&["a"], &["K=\0"]),
            (&many, &[]),
            (&["a", &long], &[]),
        ];
        for (argv, env) in cases {
            assert_eq!(check(&start(argv, env)).unwrap_err().code, FailureCode::Invalid);
        }
        assert_eq!(check(&start(&["a", ""], &["K="])), Ok(()));
    }

    #[test]
    fn a_relative_directory_starts_at_home() {
        let call = Start { cwd: Some("src".into()), ..Start::default() };
        let chosen = WorkingDirectory::choose(&call, &AgentConfig::default(), &identity());
        assert_eq!(chosen, WorkingDirectory { path: "/home/user/src".into(), replaceable: false });
        let none = WorkingDirectory::choose(&Start::default(), &AgentConfig::default(), &identity());
        assert!(none.replaceable);
    }
}
