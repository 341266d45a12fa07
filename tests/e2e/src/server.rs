use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use warren_wire::client::{Client, SandboxQuery};

use crate::census;
use crate::env::{TestEnv, finish};
use crate::host::SharedHost;
use crate::internet::{Internet, RESOLVER};
use crate::output::Output;
use crate::wait::eventually;

/// A start takes a moment; with sandboxes to take over and two processors, a few.
const START_PATIENCE: Duration = Duration::from_secs(90);

/// How a server is to be started.
#[derive(Debug)]
pub struct ServerSetup<'env> {
    env: &'env TestEnv,
    data_dir: PathBuf,
    listen: String,
    flags: Vec<String>,
    variables: Vec<(String, String)>,
    boot: Option<PathBuf>,
    machine: Option<&'env Internet>,
    host: Option<&'env SharedHost>,
}

/// `warren serve` on a data directory, usually that of the [`TestEnv`]. Whatever becomes of the
/// test, it does not outlive it.
#[derive(Debug)]
pub struct TestServer<'env> {
    setup: ServerSetup<'env>,
    child: Child,
    url: String,
    key: String,
    started_in: Duration,
}

impl<'env> ServerSetup<'env> {
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Gives a setting a value.
    pub fn set(self, key: &str, value: &str) -> Self {
        self.flag("--set").flag(&format!("{key}={value}"))
    }

    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.to_owned(), value.as_ref().to_string_lossy().into_owned()));
        self
    }

    /// The process kills itself there.
    pub fn crash_at(self, step: &str) -> Self {
        self.variable("WARREN_CRASH_AT", step)
    }

    pub fn data_dir(mut self, data_dir: &Path) -> Self {
        self.data_dir = data_dir.to_owned();
        self
    }

    pub fn listen(mut self, address: &str) -> Self {
        address.clone_into(&mut self.listen);
        self
    }

    /// At an address where no client of the test can be given a port by chance while the server is
    /// away.
    pub fn at_lasting_address(self) -> Self {
        let mut bits = [0; 2];
        getrandom::fill(&mut bits).expect("there is randomness");
        let port = 12_000 + u16::from_ne_bytes(bits) % 18_000;
        self.listen(&format!("127.0.0.1:{port}"))
    }

    /// As if the machine had been started anew: the id of the boot is what the file has. Only the
    /// server sees it, in a mount namespace of its own.
    pub fn in_other_boot(mut self, id: &Path) -> Self {
        self.boot = Some(id.to_owned());
        self
    }

    /// On the machine of an Internet, with that one's names.
    pub fn inside(mut self, internet: &'env Internet) -> Self {
        self.machine = Some(internet);
        self.listen = format!("{}:0", internet.address());
        self.set("network.dns", &format!("[\"{RESOLVER}\"]"))
    }

    /// On a host whose mounts are shared.
    pub fn on(mut self, host: &'env SharedHost) -> Self {
        self.host = Some(host);
        self
    }

    /// `warren serve`, not yet started.
    pub fn command(&self) -> Command {
        let mut command = self.env.command_on(&self.data_dir, ["serve", "--listen", &self.listen]);
        command.arg("--env-file").arg(self.env_file());
        command.args(&self.flags).envs(self.variables.iter().map(|(name, value)| (name, value)));
        let command = match &self.boot {
            Some(id) => within(&command, id),
            None => command,
        };
        match (self.machine, self.host) {
            (Some(internet), _) => internet.on_machine(&command),
            (None, Some(host)) => host.inside(&command),
            (None, None) => command,
        }
    }

    /// Starts it and waits until it answers requests.
    #[track_caller]
    pub fn start(self) -> TestServer<'env> {
        let (child, started_in) = self.spawn();
        let (url, key) = read_env_file(&self.env_file());
        let listen = url.trim_start_matches("http://").to_owned();
        TestServer { setup: Self { listen, ..self }, child, url, key, started_in }
    }

    /// Starts it, and insists that it ends by itself.
    pub fn refused(&self) -> Output {
        finish(self.command(), &[])
    }

    #[track_caller]
    fn spawn(&self) -> (Child, Duration) {
        drop(fs::remove_file(self.env_file()));
        let open =
            |path| File::options().create(true).append(true).open(path).expect("its output can be kept");
        let (stdout, log) = (open(self.env.path("server.out")), open(self.log_file()));
        let started = Instant::now();
        let mut child = self.command().stdout(stdout).stderr(log).spawn().expect("warren can be started");
        while !self.env_file().exists() {
            let ended = child.try_wait().expect("the server can be waited for");
            assert!(ended.is_none(), "the server ended at once ({ended:?}): {}", self.log());
            assert!(started.elapsed() < START_PATIENCE, "the server is not ready: {}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
        (child, started.elapsed())
    }

    fn env_file(&self) -> PathBuf {
        self.env.path("server.env")
    }

    fn log_file(&self) -> PathBuf {
        self.env.path("server.log")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }
}

impl<'env> TestServer<'env> {
    pub fn setup(env: &'env TestEnv) -> ServerSetup<'env> {
        ServerSetup {
            env,
            data_dir: env.data_dir(),
            listen: "127.0.0.1:0".to_owned(),
            flags: Vec::new(),
            variables: Vec::new(),
            boot: None,
            machine: None,
            host: None,
        }
    }

    #[track_caller]
    pub fn start(env: &'env TestEnv) -> Self {
        Self::setup(env).start()
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn address(&self) -> &str {
        &self.setup.listen
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// From its start to the moment requests were answered.
    pub fn started_in(&self) -> Duration {
        self.started_in
    }

    pub fn env_file(&self) -> PathBuf {
        self.setup.env_file()
    }

    /// The output of this test's servers when they started.
    pub fn announcements(&self) -> String {
        fs::read_to_string(self.setup.env.path("server.out")).unwrap_or_default()
    }

    /// The log of all servers of this test.
    pub fn log(&self) -> String {
        self.setup.log()
    }

    /// A client with the administrator's key.
    pub fn client(&self) -> Client {
        self.client_with(&self.key)
    }

    pub fn client_with(&self, key: &str) -> Client {
        Client::new(&self.url, key).expect("the address and the key are well formed")
    }

    /// `warren` as a client of this server, not yet started.
    pub fn command<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> Command {
        let mut command = self.setup.env.command_on(&self.setup.data_dir, words);
        command.env("WARREN_URL", &self.url).env("WARREN_API_KEY", &self.key);
        command
    }

    /// Runs `warren` as a client of this server.
    pub fn warren<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> Output {
        finish(self.command(words), &[])
    }

    /// As [`TestServer::warren`], with standard input.
    pub fn warren_fed<I: AsRef<OsStr>>(&self, input: &[u8], words: impl IntoIterator<Item = I>) -> Output {
        finish(self.command(words), input)
    }

    /// Makes a sandbox with every default and answers its id.
    #[track_caller]
    pub fn create(&self) -> String {
        self.warren(["create"]).ok().line()
    }

    /// Runs a shell's line in a sandbox and answers its output without the final line break.
    #[track_caller]
    pub fn shell(&self, id: &str, line: &str) -> String {
        self.warren(["exec", id, "--", "sh", "-c", line]).ok().line()
    }

    /// The status of a sandbox, as its own word.
    #[track_caller]
    pub fn status(&self, id: &str) -> String {
        let sandbox = self.client().sandbox(id).unwrap_or_else(|error| panic!("{id}: {error:?}"));
        word(&sandbox.status)
    }

    /// Ends the server as a fault would, at once.
    pub fn kill(&mut self) {
        self.child.kill().expect("the server can be killed");
        self.child.wait().expect("the server can be waited for");
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("it has a pid");
        rustix::process::kill_process(pid, signal).expect("the server can be sent a signal");
    }

    /// Waits for the server's end.
    #[track_caller]
    pub fn ended(&mut self, patience: Duration) -> ExitStatus {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait().expect("the server can be waited for") {
                return status;
            }
            assert!(Instant::now() < deadline, "the server did not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the server as a service manager would.
    #[track_caller]
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
        let status = self.ended(Duration::from_secs(30));
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// Starts a server again at the same address, on the same directory, after this one has ended.
    #[track_caller]
    pub fn start_again(&mut self) {
        self.start_again_with(|setup| setup);
    }

    /// As [`TestServer::start_again`], with other flags or variables.
    #[track_caller]
    pub fn start_again_with(&mut self, change: impl FnOnce(ServerSetup<'env>) -> ServerSetup<'env>) {
        let setup = ServerSetup {
            env: self.setup.env,
            data_dir: self.setup.data_dir.clone(),
            listen: self.setup.listen.clone(),
            flags: self.setup.flags.clone(),
            variables: Vec::new(),
            boot: None,
            machine: self.setup.machine,
            host: self.setup.host,
        };
        let setup = change(setup);
        (self.child, self.started_in) = setup.spawn();
        (self.url, self.key) = read_env_file(&setup.env_file());
    }

    /// Waits until the machine holds what the records say, no more and no less.
    #[track_caller]
    pub fn assert_agreement(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut odd = self.disagreements();
        while !odd.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
            odd = self.disagreements();
        }
        assert!(odd.is_empty(), "records and machine disagree: {odd:#?}\n{}", self.log());
    }

    fn disagreements(&self) -> Vec<String> {
        let mut backends = crate::backend::open_all(&self.setup.data_dir);
        let set = |key: &str| {
            let flags = self.setup.flags.iter();
            flags.filter_map(|flag| flag.strip_prefix(key)?.strip_prefix('=')).next()
        };
        if let Some(at) = set("backends.docker_host").or_else(|| set("backends.docker_socket")) {
            let certificates = set("backends.docker_certificates").map(Into::into);
            let engine = crate::backend::engine_address(at, certificates);
            backends.push(crate::backend::open_docker(engine, &self.setup.data_dir, None));
        }
        let found: Vec<_> =
            backends.iter().flat_map(|backend| backend.list().expect("sandboxes are listed")).collect();
        let said = |id: &str| match self.client().sandbox(id) {
            Ok(sandbox) => (word(&sandbox.status), sandbox.resumable),
            Err(error) => (error.code().unwrap_or("no answer").to_owned(), false),
        };
        let machine = found.iter().map(|found| {
            let is = match (found.alive, found.frozen) {
                (true, false) => ("ready".to_owned(), false),
                (true, true) => ("paused".to_owned(), false),
                (false, _) => ("stopped".to_owned(), true),
            };
            (found.id.as_str().to_owned(), is)
        });
        let machine: Vec<_> = machine.collect();
        let differs = machine.iter().filter(|(id, is)| said(id) != *is);
        let differs = differs.map(|(id, is)| format!("{id} is {is:?}, and its record says {:?}", said(id)));
        let listed = self.client().sandboxes(&SandboxQuery::default()).expect("sandboxes are listed").items;
        let lost = listed.iter().filter(|sandbox| !machine.iter().any(|(id, _)| *id == sandbox.sandbox_id));
        let lost = lost.map(|sandbox| format!("{} is nowhere: {:?}", sandbox.sandbox_id, sandbox.status));
        differs.chain(lost).collect()
    }

    /// Removes every sandbox and ends the server; nothing may be left.
    #[track_caller]
    pub fn finish(mut self) {
        let client = self.client();
        for sandbox in client.sandboxes(&SandboxQuery::default()).expect("sandboxes are listed").items {
            client.delete_sandbox(&sandbox.sandbox_id).expect("sandboxes can be removed");
        }
        let data_dir = &self.setup.data_dir;
        // What is removed in the background has a low priority and waits on a busy machine.
        eventually(Duration::from_secs(300), "nothing is left of any sandbox", || {
            census::census(data_dir).is_empty()
        });
        self.terminate();
        if self.setup.data_dir != self.setup.env.data_dir() {
            census::remove_parents(&self.setup.data_dir);
        }
    }
}

impl Drop for TestServer<'_> {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            use std::io::Write;
            let log = self.log();
            let tail = log.lines().rev().take(60).collect::<Vec<_>>().into_iter().rev();
            drop(writeln!(std::io::stderr(), "the end of the server's log:"));
            tail.for_each(|line| drop(writeln!(std::io::stderr(), "  {line}")));
            if self.setup.data_dir != self.setup.env.data_dir() {
                crate::backend::remove_all(&self.setup.data_dir);
                census::remove_parents(&self.setup.data_dir);
            }
        }
    }
}

/// The same command where a file is mounted over the id of the boot.
fn within(command: &Command, boot_id: &Path) -> Command {
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
    let mut outer = Command::new("unshare");
    outer.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.args(["--mount", "sh", "-c", script]).arg(boot_id);
    outer.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    outer
}

fn read_env_file(path: &Path) -> (String, String) {
    let text = fs::read_to_string(path).expect("the environment file can be read");
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_default().to_owned()
    };
    (value("WARREN_URL"), value("WARREN_API_KEY"))
}

fn word(status: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(status).expect("a status can be written");
    value.as_str().expect("a status is a word").to_owned()
}
