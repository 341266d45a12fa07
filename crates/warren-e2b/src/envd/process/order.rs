use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use warren_engine::{Process, ProcessSpec};
use warren_wire::guest::{ByteString, Reader, Stdin, TerminalSize};

use super::super::Visitor;
use super::super::path::Named;
use super::super::rpc::RpcError;
use crate::annotation::Annotation;
use crate::process::{ProcessConfig, PtySize, StartRequest};

/// Variables by which a process learns where it runs. Values in a request are ignored.
pub(super) type OwnEnv = [(&'static str, String); 3];

/// The variables, user and directory that every process of a sandbox begins with.
pub(super) struct ProcessDefaults {
    /// Absent: the sandbox's default user.
    user: Option<ByteString>,
    own_env: OwnEnv,
    /// Where the sandbox was told to work. Absent: the user's home, whatever the template says.
    workdir: Option<ByteString>,
}

impl ProcessDefaults {
    pub(super) fn of(visitor: &Visitor) -> Self {
        let workdir = visitor.record.spec.workdir.as_ref();
        Self {
            user: visitor.user.clone(),
            own_env: Annotation::own_env(&visitor.record),
            workdir: workdir.map(|path| ByteString::from(path.as_path())),
        }
    }
}

/// The user's home, from where the agent takes paths that are not absolute.
const HOME: &str = ".";

/// The size of a terminal that is given none.
const USUAL_SIZE: TerminalSize = TerminalSize { columns: 80, rows: 24 };

/// The agent's request. The process ends in its time, with or without followers.
pub(super) fn order(
    ask: StartRequest,
    defaults: ProcessDefaults,
    timeout: Option<Duration>,
) -> Result<ProcessSpec, RpcError> {
    let ProcessDefaults { user, own_env, workdir } = defaults;
    let StartRequest { process, pty, tag, stdin } = ask;
    let ProcessConfig { cmd, args, mut envs, cwd } = process
        .filter(|process| !process.cmd.is_empty())
        .ok_or_else(|| RpcError::invalid("process.cmd: say what is to be run"))?;
    let argv: Vec<String> = [cmd].into_iter().chain(args).collect();
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(RpcError::invalid("process.args: a command holds no NUL"));
    }
    let terminal = match pty {
        Some(pty) => Some(pty.size.map_or(Ok(USUAL_SIZE), terminal_size)?),
        None => None,
    };
    envs.extend(own_env.map(|(name, value)| (name.to_owned(), value)));
    let piped = terminal.is_some() || stdin.unwrap_or(true);
    Ok(ProcessSpec {
        argv: argv.into_iter().map(ByteString::from).collect(),
        env: envs.into_iter().map(variable).collect::<Result<_, _>>()?,
        cwd: cwd.map(directory).transpose()?.flatten().or(workdir).or_else(|| Some(HOME.into())),
        user,
        stdin: if piped { Stdin::Piped } else { Stdin::Null },
        terminal,
        tag: tag.map(ByteString::from),
        timeout_ms: timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        follow: Some(Reader::Holds),
        until_closed: Some(true),
    })
}

fn variable((name, value): (String, String)) -> Result<ByteString, RpcError> {
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Err(RpcError::invalid(
            "process.envs: a variable has a name without `=`, and no NUL anywhere",
        ));
    }
    Ok(ByteString::from(format!("{name}={value}")))
}

/// As the agent takes it, which begins at the user's home by itself.
fn directory(cwd: String) -> Result<Option<ByteString>, RpcError> {
    match Named::read(&cwd).map_err(|error| RpcError::invalid(format!("process.cwd: {error}")))? {
        Named::Nowhere => Ok(None),
        named => Ok(Some(named.or(HOME).into())),
    }
}

pub(super) fn terminal_size(size: PtySize) -> Result<TerminalSize, RpcError> {
    match (u16::try_from(size.cols), u16::try_from(size.rows)) {
        (Ok(columns), Ok(rows)) => Ok(TerminalSize { columns, rows }),
        _ => Err(RpcError::invalid("pty.size: a terminal has at most 65535 columns and rows")),
    }
}

/// How a process was asked for, as far as it is known.
pub(super) fn shown(process: &Process, own_env: &OwnEnv) -> ProcessConfig {
    let mut words = process.argv.iter().map(|word| word.to_text().into_owned());
    let cmd = words.next().unwrap_or_default();
    let variables = process.env.iter().map(ByteString::to_text);
    let split = |variable: Cow<'_, str>| {
        variable.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    let mut envs: BTreeMap<_, _> = variables.filter_map(split).collect();
    envs.retain(|name, _| own_env.iter().all(|(known, _)| known != name));
    let cwd = process.cwd.to_text();
    let cwd = cwd.strip_suffix("/.").unwrap_or(&cwd).to_owned();
    ProcessConfig { cmd, args: words.collect(), envs, cwd: Some(cwd) }
}

#[cfg(test)]
mod tests {
    use crate::process::Pty;
    use crate::rpc::Code;

    use super::*;

    fn ask(config: ProcessConfig) -> StartRequest {
        StartRequest { process: Some(config), ..StartRequest::default() }
    }

    fn command(cmd: &str) -> ProcessConfig {
        ProcessConfig { cmd: cmd.to_owned(), ..ProcessConfig::default() }
    }

    fn own_env() -> OwnEnv {
        [("E2B_SANDBOX", "true"), ("E2B_SANDBOX_ID", "sbx1"), ("E2B_TEMPLATE_ID", "base")]
            .map(|(name, value)| (name, value.to_owned()))
    }

    fn spec(ask: StartRequest) -> Result<ProcessSpec, Code> {
        spec_at(ask, None)
    }

    fn spec_at(ask: StartRequest, workdir: Option<&str>) -> Result<ProcessSpec, Code> {
        let workdir = workdir.map(ByteString::from);
        order(ask, ProcessDefaults { user: None, own_env: own_env(), workdir }, None)
            .map_err(|error| error.into_body().code)
    }

    #[test]
    fn input_is_open_unless_it_is_declined() {
        let stdin = |stdin| spec(StartRequest { stdin, ..ask(command("cat")) }).unwrap().stdin;
        assert_eq!(
            (stdin(None), stdin(Some(true)), stdin(Some(false))),
            (Stdin::Piped, Stdin::Piped, Stdin::Null)
        );
        let pty = StartRequest { pty: Some(Pty { size: None }), stdin: Some(false), ..ask(command("bash")) };
        let pty = spec(pty).unwrap();
        assert_eq!((pty.stdin, pty.terminal), (Stdin::Piped, Some(USUAL_SIZE)));
    }

    #[test]
    fn a_request_does_not_say_where_it_runs() {
        let envs = [("A", "1"), ("E2B_SANDBOX_ID", "forged"), ("E2B_SANDBOX", "false")];
        let envs: BTreeMap<_, _> = envs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let spec = spec(ask(ProcessConfig { envs, ..command("env") })).unwrap();
        let expected = ["A=1", "E2B_SANDBOX=true", "E2B_SANDBOX_ID=sbx1", "E2B_TEMPLATE_ID=base"];
        assert_eq!(spec.env, expected.map(ByteString::from));
    }

    #[test]
    fn directories_begin_at_home() {
        let cwd = |cwd: &str| spec(ask(ProcessConfig { cwd: Some(cwd.to_owned()), ..command("pwd") }));
        let text = |text: &str| cwd(text).unwrap().cwd.map(|cwd| cwd.to_text().into_owned());
        assert_eq!(text("/srv"), Some("/srv".to_owned()));
        assert_eq!(text("src"), Some("src".to_owned()));
        assert_eq!(text("~/src"), Some("src".to_owned()));
        assert_eq!(text("~"), Some(".".to_owned()));
        assert_eq!(text(""), Some(".".to_owned()));
        let at = |workdir| spec_at(ask(command("pwd")), workdir).unwrap().cwd;
        assert_eq!((at(None), at(Some("/code"))), (Some(".".into()), Some("/code".into())));
        assert_eq!(cwd("~root"), Err(Code::InvalidArgument));
        assert_eq!(cwd("a\0b"), Err(Code::InvalidArgument));
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let with = |name: &str, value: &str| {
            let envs = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            spec(ask(ProcessConfig { envs, ..command("env") }))
        };
        let size = |cols, rows| {
            let pty = Some(Pty { size: Some(PtySize { cols, rows }) });
            spec(StartRequest { pty, ..ask(command("bash")) })
        };
        for refused in [
            spec(StartRequest::default()),
            spec(ask(command(""))),
            spec(ask(command("a\0b"))),
            with("", "x"),
            with("a=b", "x"),
            with("a", "\0"),
            size(65_536, 24),
            size(80, u32::MAX),
        ] {
            assert_eq!(refused, Err(Code::InvalidArgument));
        }
        assert_eq!(size(120, 40).unwrap().terminal, Some(TerminalSize { columns: 120, rows: 40 }));
    }

    #[test]
    fn a_process_is_shown_as_it_was_asked_for() {
        let process = Process {
            process: warren_wire::guest::ProcessId(1),
            pid: 7,
            argv: ["/bin/bash", "-c", "true"].map(ByteString::from).into(),
            tag: None,
            terminal: false,
            exit: None,
            age_ms: 0,
            kept_from: 0,
            kept_to: 0,
            cwd: "/home/user/.".into(),
            env: vec!["A=b=c".into(), "E2B_SANDBOX_ID=sbx1".into()],
        };
        let config = shown(&process, &own_env());
        assert_eq!(
            (config.cmd.as_str(), config.args),
            ("/bin/bash", vec!["-c".to_owned(), "true".to_owned()])
        );
        assert_eq!(config.envs, BTreeMap::from([("A".to_owned(), "b=c".to_owned())]));
        assert_eq!(config.cwd.as_deref(), Some("/home/user"));
    }
}
