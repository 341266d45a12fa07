//! Every writer of a sandbox's files is in its log, is blamed for its changes, and is taken back by
//! one undo.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warren_e2e::{TestEnv, TestServer, read_answer};

use super::support::{create, keep_busy, log, text};

const WORK: &str = "/home/user/work";

struct World<'s, 'e> {
    env: &'e TestEnv,
    server: &'s TestServer<'e>,
    id: String,
}

impl World<'_, '_> {
    /// All files below the directory that everybody works in. Looking is nothing that the log knows
    /// of.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let target = self.env.path("seen");
        fs::remove_dir_all(&target).ok();
        fs::create_dir(&target).expect("a place to look at files");
        self.server
            .warren(["cp", &format!("{}:{WORK}", self.id), target.to_str().expect("a plain path")])
            .ok();
        let mut files = BTreeMap::new();
        let mut left = vec![target.clone()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).expect("what was copied can be listed") {
                let path = entry.expect("an entry").path();
                let name = path.strip_prefix(&target).expect("it is below").display().to_string();
                if path.is_dir() {
                    left.push(path);
                    files.insert(name, Vec::new());
                } else {
                    files.insert(name, fs::read(path).expect("what was copied can be read"));
                }
            }
        }
        files
    }

    /// The newest entry, once the state after it is known.
    #[track_caller]
    fn newest(&self) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let newest = log(self.server, &self.id).swap_remove(0);
            if !newest["after_id"].is_null() {
                return newest;
            }
            assert!(Instant::now() < until, "{newest}");
        }
    }

    /// Makes a change, and sees it told, blamed, undone and done again.
    #[track_caller]
    fn told(&self, path: &str, change: impl FnOnce()) -> Value {
        self.newest();
        let (before, count) = (self.files(), log(self.server, &self.id).len());
        change();
        let after = self.files();
        assert_ne!(before, after);
        let entry = self.newest();
        assert_eq!(log(self.server, &self.id).len(), count + 1, "one entry: {entry}");
        let blame = self.server.warren(["blame", &self.id, path, "--json"]).ok().json();
        assert_eq!(
            (&blame["items"][0]["number"], &blame["state"]),
            (&entry["number"], &json!("changed")),
            "{blame}"
        );
        self.server.warren(["undo", &self.id]).ok();
        assert_eq!(self.files(), before);
        self.server.warren(["redo", &self.id]).ok();
        assert_eq!(self.files(), after);
        entry
    }

    /// The log's newest line that is no rollback.
    fn line(&self) -> String {
        let shown = self.server.warren(["log", &self.id]).ok().text();
        shown.lines().skip(1).find(|line| !line.contains("(rollback")).expect("an entry").to_owned()
    }
}

fn on_terminal(mut warren: Command) -> i32 {
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", include_str!("../../../probes/user_terminal.py"), "", ""]);
    python.arg(warren.get_program()).args(warren.get_args());
    for (name, value) in warren.get_envs() {
        match value {
            Some(value) => python.env(name, value),
            None => python.env_remove(name),
        };
    }
    warren = python;
    warren.output().expect("python3 is there").status.code().unwrap_or(-1)
}

fn tree(place: &Path) {
    fs::create_dir_all(place.join("deep/er")).expect("a file to copy");
    for number in 0..20 {
        fs::write(place.join(format!("deep/{number}")), vec![number; 3000]).expect("a file to copy");
    }
    fs::write(place.join("deep/er/x"), "x").expect("a file to copy");
}

#[test]
fn every_way_to_write_is_told_blamed_and_undone() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let world = World { env: &env, server: &server, id: create(&server, &[]) };
    let id = &world.id;
    server.shell(id, &format!("mkdir {WORK}; echo one > {WORK}/file"));
    let local = env.path("local");
    fs::write(&local, "two").unwrap();
    let entry = world.told(&format!("{WORK}/file"), || {
        server.warren(["cp", local.to_str().unwrap(), &format!("{id}:{WORK}/file")]).ok();
    });
    assert_eq!((&entry["operation"], &entry["bytes"]), (&json!("write"), &json!(3)));
    assert!(world.line().contains(&format!("write {WORK}/file (3 B)")), "{}", world.line());

    let local = env.path("many");
    tree(&local);
    let entry = world.told(&format!("{WORK}/many/deep/7"), || {
        server.warren(["cp", local.to_str().unwrap(), &format!("{id}:{WORK}/")]).ok();
    });
    assert_eq!((&entry["operation"], &entry["files"]), (&json!("unpack"), &json!(21)));

    let files = format!("/v1/sandboxes/{id}/files");
    let entry = world.told(&format!("{WORK}/moved"), || {
        let body = json!({"from": format!("{WORK}/many/deep"), "to": format!("{WORK}/moved")});
        assert_eq!(server.ask("POST", &format!("{files}/move"), Some(&body)).status, 204);
    });
    assert_eq!((&entry["operation"], &entry["to"]), (&json!("rename"), &json!(format!("{WORK}/moved"))));

    let entry = world.told(&format!("{WORK}/typed"), || {
        let line = format!("test -t 0 && echo typed > {WORK}/typed");
        assert_eq!(on_terminal(server.command(["exec", id, "--", "sh", "-c", &line])), 0);
    });
    assert_eq!((&entry["action"], &entry["exit_code"]), (&json!("terminal"), &json!(0)));
    assert!(world.line().contains("terminal: sh -c"), "{}", world.line());

    let entry = world.told(&format!("{WORK}/tried"), || {
        server.warren(["try", id, "--", "sh", "-c", &format!("echo tried > {WORK}/tried")]).ok();
    });
    assert_eq!(entry["action"], "promote");
    assert!(text(&entry, "command").contains("echo tried"), "{entry}");
    let count = log(&server, id).len();
    server.warren(["try", id, "--", "false"]).ended(1);
    assert_eq!(log(&server, id).len(), count, "what is not kept is no entry");
    server.finish();
}

#[test]
fn what_e2bs_clients_write_is_told_blamed_and_undone() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let world = World { env: &env, server: &server, id: create(&server, &[]) };
    let id = &world.id;
    server.shell(id, &format!("mkdir {WORK}"));
    let key = server.key().to_owned();
    let connect = format!("/e2b/sandboxes/{id}/connect");
    let met =
        server.ask_with("POST", &connect, &[("x-api-key", &key)], Some(&json!({"timeout": 3000}))).json();
    let token = text(&met, "envdAccessToken");
    let head = [("e2b-sandbox-id", id.as_str()), ("e2b-sandbox-port", "49983"), ("x-access-token", &token)];
    let entry = world.told(&format!("{WORK}/sent"), || {
        let mut stream = server.connect();
        let lines: String = head.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!(
            "POST /files?path={WORK}/sent HTTP/1.1\r\nhost: warren\r\nconnection: close\r\n{lines}\
             content-type: application/octet-stream\r\ncontent-length: 4\r\n\r\nsent"
        );
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(read_answer(stream).status, 200);
    });
    assert_eq!((&entry["operation"], &entry["by"]), (&json!("write"), &json!("e2b")));
    let entry = world.told(&format!("{WORK}/a/b"), || {
        let body = json!({"path": format!("{WORK}/a/b")});
        let made = server.ask_with("POST", "/filesystem.Filesystem/MakeDir", &head, Some(&body));
        assert_eq!(made.status, 200);
    });
    assert_eq!(entry["operation"], "make_directory");
    server.finish();
}

#[test]
fn blame_tells_what_is_gone_from_what_never_was() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "echo one > file");
    let none = server.warren(["blame", &id, "/home/user/none"]).ended(1);
    assert!(none.errors().contains("there is no /home/user/none"), "{}", none.errors());
    let told = server.warren(["blame", &id, "/home/user/none", "--json"]).ended(1).json();
    assert_eq!((&told["state"], &told["items"]), (&json!("never_there"), &json!([])));
    assert!(server.warren(["blame", &id, "/etc/hosts"]).ok().text().contains("began with"));
    server.shell(&id, "rm file");
    let gone = server.warren(["blame", &id, "/home/user/file"]).ok();
    assert!(gone.text().contains("rm file") && gone.errors().contains("removed by"), "{}", gone.errors());
    server.finish();
}

#[test]
fn a_process_that_writes_on_is_blamed_for_it() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    keep_busy(&server, &id, "while :; do date +%N > /home/user/tick; sleep 0.05; done");
    let until = Instant::now() + Duration::from_secs(60);
    while server.shell(&id, "cat /home/user/tick 2>/dev/null || true").is_empty() {
        assert!(Instant::now() < until);
    }
    server.warren(["snapshot", &id]).ok();
    server.shell(&id, "true");
    server.warren(["snapshot", &id]).ok();
    let blame = server.warren(["blame", &id, "/home/user/tick", "--json"]).ok().json();
    let commands: Vec<&str> =
        blame["items"].as_array().unwrap().iter().filter_map(|entry| entry["command"].as_str()).collect();
    assert!(commands.iter().any(|command| command.contains("while :")), "{blame:#}");
    server.finish();
}
