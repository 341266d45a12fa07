//! A server that goes away and comes back while it is in use.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warren_e2e::{Output, TestEnv, TestServer, eventually};
use warren_wire::client::{Client, ClientError, WriteFile};

const COMMANDS: usize = 18;
const LINES: usize = 300;

/// Counts, about twenty times each second.
fn counting() -> String {
    format!("i=0; while [ $i -lt {LINES} ]; do echo $i; i=$((i+1)); sleep 0.05; done")
}

fn counted() -> Vec<String> {
    (0..LINES).map(|number| number.to_string()).collect()
}

/// Killed once and ended in order once: what runs goes on, and nobody who looks at it misses or
/// sees twice a single line.
#[test]
fn commands_outlive_the_server_and_their_clients_lose_nothing() {
    let env = TestEnv::new();
    let mut server = TestServer::setup(&env).at_lasting_address().start();
    let (id, other) = (server.create(), server.create());
    server.shell(&id, "mkdir up; echo previous > up/file");
    // Neither is waited for if the test fails before they end.
    let over = Arc::new(AtomicBool::new(false));
    let events = std::thread::spawn({
        let (client, over) = (server.client(), Arc::clone(&over));
        move || follow_events(&client, &over)
    });
    let upload = std::thread::spawn({
        let (client, id) = (server.client(), id.clone());
        move || upload_slowly(&client, &id)
    });
    let commands: Vec<Child> =
        (0..COMMANDS).map(|number| start(&server, [&id, &other][number % 2])).collect();
    let on_terminal = start_on_terminal(&server, &other);
    let mut echo = server.command(["exec", &id, "--", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut echoed) = (echo.stdin.take().unwrap(), echo.stdout.take().unwrap());
    say(&mut keys, &mut echoed, "before\n");
    let running = processes(&server, &[&id, &other], COMMANDS + 2);
    std::thread::sleep(Duration::from_millis(500));

    server.kill();
    server.start_again();
    assert!(server.started_in() < Duration::from_secs(30), "{:?}", server.started_in());
    assert_eq!(processes(&server, &[&id, &other], COMMANDS + 2), running);
    let failed = upload.join().unwrap().expect_err("an upload does not outlive its server");
    assert!(matches!(failed, ClientError::Connect { .. } | ClientError::Read(_)), "{failed:?}");
    assert_eq!(server.shell(&id, "cat up/file"), "previous");
    eventually(Duration::from_secs(60), "nothing is left of the upload", || {
        server.shell(&id, "ls -A up") == "file"
    });
    std::thread::sleep(Duration::from_secs(1));
    say(&mut keys, &mut echoed, "between\n");

    server.terminate();
    server.start_again();
    std::thread::sleep(Duration::from_secs(1));
    say(&mut keys, &mut echoed, "after\n");
    drop(keys);
    assert!(echo.wait().unwrap().success());
    for command in commands {
        let seen = Output::from(command.wait_with_output().unwrap()).ok().text();
        assert_eq!(seen.lines().collect::<Vec<_>>(), counted());
    }
    let shown = Output::from(on_terminal.wait_with_output().unwrap()).ok().text();
    // A terminal shows what is typed too, here the end of the input.
    let digits = |line: &str| line.chars().filter(char::is_ascii_digit).collect::<String>();
    assert_eq!(shown.lines().map(digits).collect::<Vec<_>>(), counted());
    let known = events_after(&server.client(), 0).len();
    over.store(true, Ordering::Relaxed);
    // One more event, for which the follower waits. Some more may come with it.
    server.shell(&id, "true");
    eventually(Duration::from_secs(60), "the follower has seen all", || events.is_finished());
    let (followed, all) = (events.join().unwrap(), events_after(&server.client(), 0));
    assert_eq!(followed, all[..followed.len()]);
    assert!(followed.len() >= known, "{:?} was not seen", &all[followed.len()..known]);
    server.finish();
}

/// A typed line comes back. A line on its way while the server goes away may be lost, so that is
/// waited for.
#[track_caller]
fn say(keys: &mut impl Write, echoed: &mut impl Read, line: &str) {
    keys.write_all(line.as_bytes()).expect("it takes input");
    let mut seen = vec![0; line.len()];
    echoed.read_exact(&mut seen).expect("it says something");
    assert_eq!(String::from_utf8_lossy(&seen), line);
}

fn start(server: &TestServer<'_>, id: &str) -> Child {
    server.command(["exec", id, "--", "sh", "-c", &counting()]).spawn().expect("it can be started")
}

/// As [`start`], where standard output is a terminal.
fn start_on_terminal(server: &TestServer<'_>, id: &str) -> Child {
    let warren = server.command(["exec", id, "--", "sh", "-c", &counting()]);
    let words = std::iter::once(warren.get_program()).chain(warren.get_args());
    let line: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let mut script = Command::new("script");
    script.args(["-qec", &line.join(" "), "/dev/null"]).env("WARREN_URL", server.url());
    script
        .env("WARREN_API_KEY", server.key())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    script.spawn().expect("it can be started")
}

/// The processes that clients look at, once there are as many as expected, by sandbox, number and
/// pid.
fn processes(server: &TestServer<'_>, ids: &[&str], count: usize) -> Vec<(String, u64, u32)> {
    let client = server.client();
    let mut found = Vec::new();
    eventually(Duration::from_secs(60), "all commands run", || {
        let of = |id: &&str| {
            let items = client.processes(id).expect("processes are listed").items.into_iter();
            let running = items.filter(|process| process.exit.is_none());
            running.map(|process| ((*id).to_owned(), process.process_id, process.pid)).collect::<Vec<_>>()
        };
        found = ids.iter().flat_map(of).collect();
        found.len() == count
    });
    found
}

/// A body that takes half a minute.
struct Slow(u32);

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Ok(0);
        }
        self.0 -= 1;
        std::thread::sleep(Duration::from_millis(50));
        buffer.fill(b'x');
        Ok(buffer.len())
    }
}

fn upload_slowly(client: &Client, id: &str) -> Result<warren_wire::api::Written, ClientError> {
    let file = WriteFile { path: "/home/user/up/file".to_owned(), ..WriteFile::default() };
    client.write_file(id, &file, &mut Slow(600))
}

/// Events by number and name, over as many connections as it takes, until the first one after the
/// end.
fn follow_events(client: &Client, over: &AtomicBool) -> Vec<(u64, String)> {
    let mut seen: Vec<(u64, String)> = Vec::new();
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
        let after = seen.last().map_or(0, |(number, _)| *number);
        let Ok(mut reader) = client.follow_events(Some(after), None) else { continue };
        while let Ok(Some(event)) = reader.next_event() {
            // A server that ends says so, and that is no event.
            let Some(number) = event.id.and_then(|id| id.parse().ok()) else { break };
            seen.push((number, event.name));
            if over.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    seen
}

fn events_after(client: &Client, mut after: u64) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    loop {
        let page = client.events(after, None).expect("events are listed");
        found.extend(page.items.into_iter().map(|event| (event.number, event.event)));
        if page.next_after <= after {
            return found;
        }
        after = page.next_after;
    }
}
