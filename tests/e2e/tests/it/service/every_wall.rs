//! A day's work behind each wall: a server whose only backend is that one, and all that people do
//! with a sandbox over the command line and `/v1`. The steps are the same for all; what a backend
//! cannot do by its own capabilities is asserted to be refused by that capability's name.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use warren_e2e::{DockerEngine, Output, TestEnv, TestServer, eventually, known_gap};
use warren_wire::api::{Backend, BackendCapabilities};

const SOON: Duration = Duration::from_secs(60);

/// A port's whole application, with what every gVisor can run.
const GREETER: &str = "import socket\ns = socket.create_server(('127.0.0.1', 8000))\nwhile True:\n  \
                       c, _ = s.accept(); c.sendall(b'from inside'); c.close()";

/// Writes its age ten times a second.
const COUNTER: &str = "n=0; while :; do n=$((n+1)); echo $n > /tmp/count; sleep 0.1; done";

struct Day<'env> {
    wall: &'static str,
    env: &'env TestEnv,
    server: TestServer<'env>,
    can: BackendCapabilities,
    /// The root of sandboxes, where that is no template.
    image: Option<&'static str>,
    /// The sandbox that the day is spent with.
    id: String,
}

/// Says which step it was that failed.
struct Told {
    wall: &'static str,
    name: &'static str,
}

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            drop(writeln!(std::io::stderr(), "behind {}: {}", self.wall, self.name));
        }
    }
}

type Step = (&'static str, fn(&mut Day<'_>));

macro_rules! steps {
    ($($step:ident,)*) => { [$((stringify!($step), $step as fn(&mut Day<'_>)),)*] };
}

fn steps() -> impl Iterator<Item = Step> {
    steps![
        it_is_made,
        commands_run,
        input_is_read,
        a_terminal_is_one,
        files_go_up_and_down,
        a_port_answers,
        it_is_paused_and_goes_on,
        its_files_are_captured_and_it_goes_back,
        its_processes_are_captured_or_that_is_refused,
        it_is_forked,
        what_was_done_is_told,
        limits_hold_and_use_is_told,
        a_disk_has_an_end,
        directories_of_the_host_are_shown,
        it_has_another_name,
        it_sleeps_when_nobody_needs_it,
        it_outlives_the_server,
        it_outlives_a_server_that_is_killed,
        it_is_stopped_and_taken_up_again,
        a_network_is_given_or_refused,
        it_is_removed,
    ]
    .into_iter()
}

fn spend_a_day(wall: &'static str) {
    spend_a_day_on(wall, None);
}

fn spend_a_day_on(wall: &'static str, engine: Option<&DockerEngine>) {
    let env = TestEnv::new();
    let enabled = format!("[{wall}]");
    let mut server = TestServer::setup(&env).set("backends.enabled", &enabled).set("timeouts.sweep", "1s");
    if let Some(engine) = engine {
        server = server.set("backends.docker_socket", &engine.socket().to_string_lossy());
    }
    let server = server.start();
    let listed = server.client().backends().expect("backends are listed").items;
    let on: Vec<&Backend> = listed.iter().filter(|backend| backend.on).collect();
    assert_eq!((on.len(), on[0].name.as_str(), on[0].healthy), (1, wall, true), "{on:?}");
    let can = on[0].capabilities.clone().expect("it is open");
    let image = engine.map(|_| DockerEngine::WORKSHOP);
    let mut day = Day { wall, env: &env, server, can, image, id: String::new() };
    for (name, step) in steps() {
        let _told = Told { wall, name };
        step(&mut day);
    }
    day.server.finish();
}

#[test]
fn a_day_behind_crun() {
    spend_a_day("crun");
}

#[test]
fn a_day_behind_runc() {
    spend_a_day("runc");
}

#[test]
fn a_day_behind_runsc() {
    spend_a_day("runsc");
}

#[test]
fn a_day_behind_docker() {
    let engine = DockerEngine::new();
    engine.import_workshop();
    spend_a_day_on("docker", Some(&engine));
}

impl Day<'_> {
    /// `warren create` with these words, on the root of this wall.
    fn create(&self, words: &[&str]) -> Output {
        let root = self.image.map_or_else(Vec::new, |image| vec!["--image", image]);
        self.warren(&[["create"].as_slice(), &root, words].concat())
    }

    #[track_caller]
    fn shell(&self, line: &str) -> String {
        self.server.shell(&self.id, line)
    }

    /// `warren` with these words.
    fn warren(&self, words: &[&str]) -> Output {
        self.server.warren(words)
    }

    fn count(&self) -> u32 {
        self.shell("cat /tmp/count").parse().unwrap_or(0)
    }

    #[track_caller]
    fn goes_on_counting(&self) {
        let before = self.count();
        eventually(SOON, "it goes on counting", || self.count() > before);
    }
}

fn it_is_made(day: &mut Day<'_>) {
    let made = day.create(&["--name", "web", "--label", "task=day", "--json"]).ok().json();
    assert_eq!((&made["backend"], &made["status"]), (&json!(day.wall), &json!("ready")), "{made}");
    day.id = made["sandbox_id"].as_str().expect("it has an id").to_owned();
    let listed = day.warren(&["ls", "--json", "--label", "task=day"]).ok().json();
    assert_eq!(listed[0]["sandbox_id"], made["sandbox_id"]);
    let shown = day.server.ask("GET", &format!("/v1/sandboxes/{}", day.id), None).json();
    assert_eq!((&shown["backend"], &shown["name"]), (&json!(day.wall), &json!("web")));
}

fn commands_run(day: &mut Day<'_>) {
    let id = day.id.as_str();
    let shell = |line: &str| day.warren(&["exec", id, "--", "sh", "-c", line]);
    let output = shell("echo out; echo err >&2; exit 7").ended(7);
    assert_eq!((output.text().as_str(), output.errors().as_str()), ("out\n", "err\n"));
    shell("kill -9 $$").ended(137);
    day.warren(&["exec", id, "--", "no-such-program"]).ended(127);
    day.warren(&["exec", id, "--", "/etc/passwd"]).ended(126);
    day.warren(&["exec", id, "--timeout", "1s", "--", "sleep", "60"]).ended(124);
    let words = ["exec", id, "-e", "WORD=a b", "-w", "/tmp", "--", "sh", "-c", "echo \"$WORD\"; pwd; id -u"];
    assert_eq!(day.warren(&words).ok().line(), "a b\n/tmp\n1000");
    assert_eq!(day.warren(&["exec", id, "-u", "root", "--", "id", "-u"]).ok().line(), "0");
    let body = json!({"command": "echo out; exit 7"});
    let ended = day.server.ask("POST", &format!("/v1/sandboxes/{id}/exec"), Some(&body)).json();
    assert_eq!((&ended["exit_code"], &ended["stdout"]), (&json!(7), &json!("out\n")), "{ended}");
}

fn input_is_read(day: &mut Day<'_>) {
    let words = ["exec", &day.id, "--", "wc", "-c"];
    assert_eq!(day.server.warren_fed(&vec![b'x'; 300_000], words).ok().line(), "300000");
}

fn a_terminal_is_one(day: &mut Day<'_>) {
    let look = "stty size; test -t 0 -a -t 1 -a -t 2 && echo all; read word; echo \"got $word\"; exit 5";
    let exec = day.server.command(["exec", "-it", &day.id, "--", "sh", "-c", look]);
    let driver = include_str!("../../../probes/user_terminal.py");
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", driver, "all", "hello\r"]).arg(exec.get_program()).args(exec.get_args());
    python.envs(exec.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = Output::from(python.output().expect("python3 is there")).ended(5);
    let shown = output.text().replace("\r\n", "\n");
    assert!(shown.starts_with("33 99\nall\n") && shown.ends_with("got hello\n"), "{shown}");
}

fn files_go_up_and_down(day: &mut Day<'_>) {
    let (tree, back) = (day.env.path("tree"), day.env.path("back"));
    fs::create_dir_all(tree.join("deep/er")).expect("a tree");
    fs::write(tree.join("deep/er/data"), vec![7; 300_000]).expect("a file");
    day.warren(&["cp", &tree.to_string_lossy(), &format!("{}:/home/user/", day.id)]).ok();
    assert_eq!(day.shell("wc -c < tree/deep/er/data"), "300000");
    day.shell("echo more > tree/deep/more");
    day.warren(&["cp", &format!("{}:/home/user/tree", day.id), &back.to_string_lossy()]).ok();
    assert_eq!(fs::read(back.join("deep/er/data")).expect("it is back"), vec![7; 300_000]);
    assert_eq!(fs::read_to_string(back.join("deep/more")).expect("it is back"), "more\n");
    let mut text = String::new();
    let file = day.server.client().read_file(&day.id, "/home/user/tree/deep/more", None);
    file.expect("it is read").read_to_string(&mut text).expect("it is text");
    assert_eq!(text, "more\n");
    day.warren(&["cp", &format!("{}:/no/such/file", day.id), "-"]).ended(127);
}

fn a_port_answers(day: &mut Day<'_>) {
    day.warren(&["exec", &day.id, "--detach", "--tag", "greeter", "--", "python3", "-c", GREETER]).ok();
    eventually(SOON, "it answers", || {
        let mut said = String::new();
        let connected = day.server.client().connect_port(&day.id, 8000);
        connected.is_ok_and(|mut stream| stream.read_to_string(&mut said).is_ok()) && said == "from inside"
    });
    day.warren(&["kill", &day.id, "tag:greeter"]).ok();
    eventually(SOON, "it has ended", || {
        let listed = day.warren(&["ps", &day.id]).ok().text();
        listed.lines().any(|line| line.contains("greeter") && line.contains("exited"))
    });
}

fn it_is_paused_and_goes_on(day: &mut Day<'_>) {
    day.warren(&["exec", &day.id, "--detach", "--", "sh", "-c", COUNTER]).ok();
    eventually(SOON, "it counts", || !day.shell("cat /tmp/count 2>/dev/null || true").is_empty());
    if day.can.freeze {
        day.warren(&["pause", &day.id]).ok();
        day.warren(&["exec", &day.id, "--", "true"]).ended(125).says("resume it first");
        day.warren(&["resume", &day.id]).ok();
    } else {
        day.warren(&["pause", &day.id]).ended(125).says("freeze");
    }
    day.goes_on_counting();
}

/// With a program in the background that writes all the time.
fn its_files_are_captured_and_it_goes_back(day: &mut Day<'_>) {
    let id = day.id.clone();
    if day.can.snapshots == "none" {
        day.warren(&["snapshot", &id]).ended(125).says("snapshots");
        return;
    }
    day.shell("echo one > file; chmod 640 file; mkdir dir; echo deep > dir/deep; echo one > /tmp/file");
    day.warren(&["snapshot", &id, "--name", "one"]).ok();
    day.shell("echo two > file; rm -r dir; echo new > added; echo two > /tmp/file");
    let differs = day.warren(&["diff", &format!("{id}:one"), &id, "/home/user"]).ok().text();
    for line in ["~ /home/user/file", "+ /home/user/added", "- /home/user/dir"] {
        assert!(differs.contains(line), "`{line}` is not in {differs}");
    }
    let all = "cat file dir/deep added /tmp/file 2>/dev/null; true";
    day.warren(&["undo", &id]).ok();
    assert_eq!(day.shell(all), "one\ndeep\none");
    day.warren(&["redo", &id]).ok();
    assert_eq!(day.shell(all), "two\nnew\ntwo");
    day.warren(&["rollback", &id, "one"]).ok();
    assert_eq!(day.shell(all), "one\ndeep\none");
    // By a program whose `stat` is one that every gVisor has.
    let mode = "python3 -c 'import os; print(oct(os.stat(\"file\").st_mode & 0o777))'";
    assert_eq!(day.shell(mode), "0o640");
    // Going back ends what ran.
    assert!(!day.warren(&["ps", &id]).ok().text().contains("running"), "{}", day.warren(&["ps", &id]).text());
}

/// It goes back to its processes, which count on from where they were.
fn its_processes_are_captured_or_that_is_refused(day: &mut Day<'_>) {
    let id = day.id.clone();
    let take = || day.warren(&["snapshot", &id, "--memory", "--name", "warm"]);
    if !day.can.memory_snapshots {
        take().ended(125).says("capability `memory_snapshots`");
        return;
    }
    day.warren(&["exec", &id, "--detach", "--tag", "counter", "--", "sh", "-c", COUNTER]).ok();
    eventually(SOON, "it counts", || day.count() > 0);
    take().ok().says("with its processes");
    day.goes_on_counting();
    day.warren(&["kill", &id, "tag:counter"]).ok();
    day.warren(&["rollback", &id, "warm"]).ok().says("its processes go on");
    day.goes_on_counting();
    day.warren(&["kill", &id, "tag:counter"]).ok();
    day.warren(&["rollback", &id, "one"]).ok();
}

fn it_is_forked(day: &mut Day<'_>) {
    if day.can.snapshots == "none" {
        day.warren(&["fork", &day.id]).ended(125).says("snapshots");
        return;
    }
    let of_snapshot = day.warren(&["fork", &format!("{}:one", day.id)]).ok().line();
    let of_it = day.warren(&["fork", &day.id]).ok().line();
    for fork in [&of_snapshot, &of_it] {
        assert_eq!(day.server.client().sandbox(fork).expect("it is known").backend, day.wall);
        assert_eq!(day.server.shell(fork, "cat file"), "one");
        day.server.shell(fork, "echo fork > file");
    }
    assert_eq!(day.shell("cat file"), "one");
    day.warren(&["rm", &of_snapshot, &of_it]).ok();
}

fn what_was_done_is_told(day: &mut Day<'_>) {
    let log = day.warren(&["log", &day.id, "--all", "--json"]).ok().json();
    let entries = log.as_array().expect("a list");
    let of = |words: &str| {
        let has = |entry: &&Value| entry["command"].as_str().is_some_and(|line| line.contains(words));
        entries.iter().find(has).unwrap_or_else(|| panic!("`{words}` is not told: {log}"))
    };
    assert_eq!(of("echo two > file")["exit_code"], 0);
    assert_eq!(of("kill -9 $$")["exit_code"], 137);
    let events = day.warren(&["events", "--json"]).ok().text();
    for name in ["sandbox_ready", "exec_ended"] {
        assert!(events.contains(name), "{name} is not told: {events}");
    }
}

fn limits_hold_and_use_is_told(day: &mut Day<'_>) {
    let usage = day.server.client().usage(&day.id).expect("its use is told");
    assert!(usage.memory_bytes > 0 && usage.pids > 0 && usage.cpu_ns > 0, "{usage:?}");
    day.create(&["--memory", "1m"]).ended(125).says("memory");
    let small = day.create(&["--memory", "256m"]).ok().line();
    // What gVisor's kernel needs counts too, so that the whole sandbox may end.
    let bomb = day.warren(&["exec", &small, "--", "tail", "/dev/zero"]);
    assert!(matches!(bomb.code, Some(137 | 125)), "{bomb:?}");
    eventually(SOON, "it was ended for its memory", || match day.server.client().usage(&small) {
        Ok(usage) => usage.oom_kills > 0,
        Err(_) => day.warren(&["why", &small]).text().contains("memory"),
    });
    day.warren(&["rm", &small]).ok();
    assert_eq!(day.shell("echo well"), "well");
}

fn a_disk_has_an_end(day: &mut Day<'_>) {
    let made = day.create(&["--disk", "64m"]);
    if !["project", "image"].contains(&day.can.disk_quota.as_str()) {
        made.ended(125).says("disk_quota");
        return;
    }
    let small = made.ok().line();
    let fill = "dd if=/dev/zero of=big bs=1M count=100 2>/dev/null; wc -c < big";
    let held: u64 = day.server.shell(&small, fill).parse().expect("a number");
    assert!((32 << 20..=64 << 20).contains(&held), "{held}");
    day.warren(&["rm", &small]).ok();
}

fn directories_of_the_host_are_shown(day: &mut Day<'_>) {
    let gift = day.env.path("gift");
    fs::create_dir_all(&gift).expect("a directory");
    fs::write(gift.join("in"), "from the host").expect("a file");
    let mount = format!("{}:/work", gift.display());
    let run = |user: &str| {
        let words = ["--backend", day.wall, "--mount", &mount, "--user", user];
        day.env.run_with(&words, ["sh", "-c", "cat /work/in; echo back > /work/out"])
    };
    if !day.can.host_mounts {
        day.create(&["--mount", &mount]).ended(125).says("host_mounts");
        return;
    }
    assert_eq!(run("root").ok().text(), "from the host");
    assert_eq!(fs::read_to_string(gift.join("out")).expect("it was written"), "back\n");
    fs::remove_file(gift.join("out")).expect("it is ours");
    let run = run("user");
    if day.wall == "runsc" {
        known_gap!(0, "behind runsc only root makes new files in a directory of the host");
        run.ended(2).says("cannot create");
    } else {
        assert_eq!(run.ok().text(), "from the host");
        assert_eq!(fs::read_to_string(gift.join("out")).expect("it was written"), "back\n");
    }
}

fn it_has_another_name(day: &mut Day<'_>) {
    day.warren(&["rename", "web", "shop"]).ok();
    assert_eq!(day.server.shell("shop", "cat file"), "one");
    day.warren(&["exec", "web", "--", "true"]).ended(125);
}

fn it_sleeps_when_nobody_needs_it(day: &mut Day<'_>) {
    if !day.can.freeze {
        day.create(&["--idle", "1s"]).ended(125).says("freeze");
        return;
    }
    let idle = day.create(&["--idle", "1s"]).ok().line();
    day.server.shell(&idle, "echo work > file");
    eventually(SOON, "it sleeps", || day.server.status(&idle) == "paused");
    assert_eq!(day.server.shell(&idle, "cat file"), "work");
    day.warren(&["rm", &idle]).ok();
}

fn it_outlives_the_server(day: &mut Day<'_>) {
    day.warren(&["exec", &day.id, "--detach", "--tag", "count", "--", "sh", "-c", COUNTER]).ok();
    eventually(SOON, "it counts", || !day.shell("cat /tmp/count 2>/dev/null || true").is_empty());
    day.server.terminate();
    day.server.start_again();
    is_still_there(day);
}

fn it_outlives_a_server_that_is_killed(day: &mut Day<'_>) {
    day.server.kill();
    day.server.start_again();
    is_still_there(day);
}

#[track_caller]
fn is_still_there(day: &Day<'_>) {
    if day.can.outlives_server {
        assert_eq!(day.server.status(&day.id), "ready");
        day.goes_on_counting();
    } else {
        day.warren(&["resume", &day.id]).ok();
    }
    assert_eq!(day.shell("cat file"), "one");
    day.server.assert_agreement();
}

fn it_is_stopped_and_taken_up_again(day: &mut Day<'_>) {
    day.warren(&["stop", &day.id]).ok();
    assert!(day.warren(&["why", &day.id]).ok().text().contains("killed, by local"));
    day.warren(&["exec", &day.id, "--", "true"]).ended(125);
    day.warren(&["resume", &day.id]).ok();
    assert_eq!(day.shell("cat file dir/deep /tmp/file"), "one\ndeep\none");
    assert_eq!(day.server.client().sandbox(&day.id).expect("it is known").backend, day.wall);
}

fn a_network_is_given_or_refused(day: &mut Day<'_>) {
    let links = day.shell("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '");
    assert_eq!(links, "lo", "none was asked for");
    // Whether this server gives networks at all is not the backend's.
    let asked = day.create(&["--net", "allow", "--allow", "example.com"]).ended(125);
    if day.can.network == "none" {
        asked.says("capability `network`");
    }
}

fn it_is_removed(day: &mut Day<'_>) {
    day.warren(&["rm", &day.id]).ok();
    assert!(!day.warren(&["ls"]).ok().text().contains(&day.id));
    day.warren(&["exec", &day.id, "--", "true"]).ended(125);
}
