//! Hands that learned other tools: no `--`, Docker's short options, words that mean the same.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use warren_e2e::{TestEnv, TestServer, eventually};

#[test]
fn a_command_needs_no_dashes_and_options_are_as_in_docker() {
    let env = TestEnv::new();
    fs::create_dir(env.path("shared")).unwrap();
    fs::write(env.path("shared/file"), "from here").unwrap();
    let volume = format!("{}:/work:ro", env.path("shared").display());
    let look = "cat file; echo \" $0 $1 $A $HERE-$UNSET\"; id -un";
    let mut run = env.command(["run", "--rm", "-i", "-v", &volume, "-w", "/work", "-u", "root"]);
    run.args(["-e", "A=1", "-e", "HERE", "-e", "UNSET", "-m", "512m", "sh", "-c", look, "--json", "-x"]);
    let output = run.env("HERE", "there").output().map(warren_e2e::Output::from).unwrap().ok();
    assert_eq!(output.text(), "from here --json -x 1 there-\nroot\n");
    let dashes = env.warren(["run", "--", "echo", "--", "x"]).ok();
    assert_eq!(dashes.text(), "-- x\n");
}

#[test]
fn a_line_in_place_of_words_is_told_how_to_reach_a_shell() {
    let env = TestEnv::new();
    let told = env.warren(["run", "echo one | cat"]).ended(127).errors();
    assert!(told.contains("sh -c 'LINE'"), "{told}");
    assert!(!env.warren(["run", "no-such-command"]).ended(127).errors().contains("sh -c"));
    let server = TestServer::start(&env);
    let id = server.create();
    let told = server.warren(["exec", &id, "echo one | cat"]).ended(127).errors();
    assert!(told.contains("sh -c 'LINE'"), "{told}");
    server.finish();
}

#[test]
fn a_terminal_can_be_had_where_there_is_none() {
    let env = TestEnv::new();
    let shown = env.warren(["run", "-it", "sh", "-c", "tty; test -t 1 && echo terminal"]).ok().text();
    assert_eq!(shown.replace("\r\n", "\n"), "/dev/pts/0\nterminal\n");
    let server = TestServer::start(&env);
    let id = server.create();
    let shown = server.warren(["exec", "-it", &id, "sh", "-c", "tty; exit 3"]).ended(3).text();
    assert_eq!(shown.trim_end(), "/dev/pts/0");
    let shown = server.warren(["exec", &id, "sh", "-c", "tty"]).text();
    assert_eq!(shown.trim_end(), "not a tty");
    server.finish();
}

#[test]
fn a_port_is_there_while_the_command_runs() {
    let env = TestEnv::new();
    let mut run = env.command(["run", "-p", "0:8000", "python3", "-m", "http.server", "8000"]);
    let mut child = run.stdin(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let (address, _) = line.split_once(" is port 8000 of ").unwrap_or_else(|| panic!("{line}"));
    let mut answer = String::new();
    eventually(Duration::from_secs(60), "the server inside answers", || {
        let asked = TcpStream::connect(address).and_then(|mut stream| {
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
            answer.clear();
            stream.read_to_string(&mut answer)
        });
        asked.is_ok() && answer.contains("200 OK")
    });
    assert!(answer.contains("</html>"), "it came whole: {answer}");
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    assert!(TcpStream::connect(address).is_err(), "it ended with the command");
    env.warren(["run", "-d", "-p", "80", "true"]).ended(125).says("warren forward");
}

#[test]
fn a_command_in_the_background_prints_the_id_of_its_sandbox() {
    let env = TestEnv::new();
    let kept =
        env.warren(["run", "-d", "sh", "-c", "echo done > /tmp/mark; exec sleep 600"]).ok().says("no server");
    eventually(Duration::from_secs(60), "the command has run", || {
        env.exec(&kept.line(), ["cat", "/tmp/mark"]).text() == "done\n"
    });
    env.remove(&kept.line()).ok();
    let server = TestServer::start(&env);
    let begun = server.warren(["run", "-d", "--json", "sh", "-c", "echo $0 said", "it"]).ok().json();
    let id = begun["sandbox_id"].as_str().unwrap();
    let number = begun["process_id"].to_string();
    eventually(Duration::from_secs(60), "its output is kept", || {
        server.warren(["logs", id, &number]).ok().text() == "it said\n"
    });
    server.warren(["run", "-d", "/no/such"]).ended(127);
    assert_eq!(server.warren(["ls", "-q"]).ok().line(), id, "what could not start was taken away");
    server.finish();
}

#[test]
fn words_of_other_tools_do_the_same() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    assert_eq!(server.warren(["list", "-q"]).ok().line(), id);
    let shown = server.warren(["inspect", &id]).ok().text();
    assert!(shown.starts_with(&format!("{id}  ready\n")) && shown.contains("backend"), "{shown}");
    assert_eq!(server.warren(["show", &id, "--json"]).ok().json()["sandbox_id"], Value::from(id.as_str()));
    server.warren(["stop", &id]).ok();
    assert!(server.warren(["ls"]).ok().text().contains("stopped (killed)"));
    server.warren(["start", &id]).ok();
    fs::create_dir(env.path("tree")).unwrap();
    fs::write(env.path("tree/leaf"), "leaf").unwrap();
    server.warren(["cp", "-r", &env.path("tree").display().to_string(), &format!("{id}:/tmp/")]).ok();
    assert_eq!(server.warren(["exec", &id, "cat", "/tmp/tree/leaf"]).ok().text(), "leaf");
    server.warren(["attach", &id]).ended(2).says("warren shell");
    server.warren(["delete", &id]).ok();
    assert!(server.warren(["ls", "--all"]).ok().text().contains("gone (killed)"));
    assert!(server.warren(["why", &id]).ok().text().lines().count() <= 10);
    server.finish();
    assert!(env.warren(["templates", "-q"]).ok().text().lines().any(|line| line == "host"));
}

#[test]
fn nothing_is_coloured_or_cut_where_nobody_looks() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let label = format!("long={}", "x".repeat(60));
    server.warren(["create", "--label", &label]).ok();
    let plain = server.warren(["ls"]).ok().text();
    assert!(plain.contains(&label) && !plain.contains('\x1b'), "{plain}");
    let forced = server.command(["ls"]).env("CLICOLOR_FORCE", "1").output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&forced).contains("\x1b[32mready\x1b[m"));
    let never = server.command(["ls"]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").output().unwrap();
    assert!(!never.stdout.contains(&b'\x1b') && never.stdout.len() >= plain.len(), "{never:?}");
    server.finish();
}

#[test]
fn a_newcomer_is_told_what_to_type() {
    let env = TestEnv::new();
    let alone = std::process::Command::new(env.command([""]).get_program()).output().unwrap();
    assert!(String::from_utf8_lossy(&alone.stderr).contains("warren run python3"), "{alone:?}");
    env.warren(["create"]).ended(125).says("warren serve");
    env.warren(["exce", "x"]).ended(2).says("'exec'");
    env.warren(["help"]).ok();
}
