//! `warren serve`, as whoever starts it sees it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use warren_testkit::{Census, ScratchData};

fn scratch() -> ScratchData {
    assert!(rustix::process::geteuid().is_root(), "these tests make sandboxes: run them as root");
    ScratchData::new().expect("a directory for the test can be made")
}

fn warren(data: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warren"));
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", data);
    // The network of the machine that tests run on is none of theirs.
    command.env("WARREN_NETWORK__ENABLED", "false");
    command.arg("--data-dir").arg(data).args(words).stdin(Stdio::null());
    command
}

fn output(data: &Path, words: &[&str]) -> Output {
    warren(data, words).output().expect("warren can be started")
}

/// The standard error of a command that must fail.
#[track_caller]
fn refusal(data: &Path, words: &[&str]) -> String {
    let output = output(data, words);
    assert_eq!(output.status.code(), Some(125), "{words:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A server that answers. Dropping it kills it.
struct Serving {
    child: Child,
    url: String,
    /// Present if it was shown.
    key: Option<String>,
}

impl Serving {
    fn start(data: &Path, flags: &[&str]) -> Self {
        let words = [&["serve", "--listen", "127.0.0.1:0"], flags].concat();
        let mut child = warren(data, &words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("warren can be started");
        let (mut url, mut key) = (None, None);
        for line in BufReader::new(child.stdout.as_mut().expect("it is piped")).lines() {
            let line = line.expect("the announcement is text");
            if let Some(rest) = line.strip_prefix("warren serves at ") {
                url = rest.split(',').next().map(str::to_owned);
            }
            if let Some((_, shown)) = line.split_once("WARREN_API_KEY=") {
                key = Some(shown.to_owned());
            }
            if line.contains(" ls ") {
                break;
            }
        }
        let Some(url) = url else {
            let mut text = String::new();
            drop(child.stderr.as_mut().expect("it is piped").read_to_string(&mut text));
            panic!("the server did not start: {text}");
        };
        Self { child, url, key }
    }

    fn end(mut self) -> ExitStatus {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a child has a pid");
        kill_process(pid, Signal::TERM).expect("a child can be signalled");
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it did not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("the file is there").permissions().mode() & 0o777
}

fn is_let_in(data: &Path, url: &str, key: &str) -> bool {
    output(data, &["--url", url, "--key", key, "ls"]).status.success()
}

#[test]
fn the_first_start_shows_a_key_once_and_keeps_it_for_commands_on_the_machine() {
    let data = scratch();
    let (file, variables) = (data.path().join("server.json"), data.path().join("env"));
    let flag = variables.to_str().unwrap();
    let first = Serving::start(data.path(), &["--env-file", flag]);
    let key = first.key.clone().expect("the first start shows a key");
    assert_eq!((mode(&file), mode(&variables)), (0o600, 0o600));
    let written = std::fs::read_to_string(&variables).unwrap();
    let (url, digits) = (&first.url, &key["wrn_".len()..]);
    assert_eq!(
        written,
        format!(
            "WARREN_URL={url}\nWARREN_API_KEY={key}\n\
             E2B_API_URL={url}/e2b\nE2B_SANDBOX_URL={url}\nE2B_API_KEY=e2b_{digits}\n"
        )
    );
    assert!(output(data.path(), &["ls"]).status.success(), "commands find the server");
    assert!(first.end().success());

    let second = Serving::start(data.path(), &[]);
    assert_eq!(second.key, None, "the key was shown again");
    assert!(is_let_in(data.path(), &second.url, &key));
    assert!(second.end().success());
    let stored = std::fs::read(data.path().join("catalog.db")).unwrap();
    let bare = &key.as_bytes()[4..];
    assert!(!stored.windows(bare.len()).any(|bytes| bytes == bare), "the catalog has the key itself");
}

#[test]
fn a_lost_key_is_replaced_when_somebody_asks_for_it() {
    let data = scratch();
    let first = Serving::start(data.path(), &[]);
    let old = first.key.clone().unwrap();
    assert!(first.end().success());
    std::fs::remove_file(data.path().join("server.json")).unwrap();

    let variables = data.path().join("env");
    let asked = refusal(
        data.path(),
        &["serve", "--listen", "127.0.0.1:0", "--env-file", variables.to_str().unwrap()],
    );
    assert!(asked.contains("--reset-key"), "{asked}");
    let second = Serving::start(data.path(), &["--reset-key"]);
    let new = second.key.clone().expect("a new key is shown");
    assert!(is_let_in(data.path(), &second.url, &new));
    assert!(!is_let_in(data.path(), &second.url, &old), "the lost key still opens");
}

#[test]
fn a_second_server_is_refused() {
    let data = scratch();
    let first = Serving::start(data.path(), &[]);
    let said = refusal(data.path(), &["serve", "--listen", "127.0.0.1:0"]);
    assert!(said.contains("another server"), "{said}");
    assert!(is_let_in(data.path(), &first.url, first.key.as_deref().unwrap()));
}

#[test]
fn a_taken_port_is_noticed_before_anything_is_made() {
    let data = scratch();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = data.path().join("new");
    let said = refusal(&place, &["serve", "--listen", &taken.local_addr().unwrap().to_string()]);
    assert!(said.contains("listen on") && said.contains("--listen"), "{said}");
    assert!(!place.exists());
}

#[test]
fn an_open_address_without_keys_is_refused() {
    let data = scratch();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let said = refusal(data.path(), &["serve", "--no-auth", "--listen", address]);
        assert!(said.contains("loopback"), "{said}");
    }
    let local = Serving::start(data.path(), &["--no-auth"]);
    assert_eq!(local.key, None);
}

#[test]
fn sandboxes_go_on_without_their_server() {
    let data = scratch();
    let first = Serving::start(data.path(), &[]);
    let made = output(data.path(), &["create"]);
    let id = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    assert!(id.starts_with("sbx"), "{made:?}");
    let wrote = output(data.path(), &["exec", &id, "--", "sh", "-c", "echo kept > /tmp/a"]);
    assert!(wrote.status.success(), "{wrote:?}");
    assert!(first.end().success());

    let second = Serving::start(data.path(), &[]);
    let read = output(data.path(), &["exec", &id, "--", "cat", "/tmp/a"]);
    assert_eq!(String::from_utf8_lossy(&read.stdout), "kept\n", "{read:?}");
    assert!(output(data.path(), &["rm", &id]).status.success());
    assert!(second.end().success());
    Census::assert_clean(data.path());
}
