//! The agent is out of its tenants' reach, and a child that is held up holds up nothing else.

use std::time::{Duration, Instant};

use warren_core::{SandboxId, SandboxSpec};
use warren_e2e::{Backend, TestEnv, TestServer, eventually, probe, probe_file, processes_of};

/// Generous: what is looked for are waits without end, and half a minute for everybody.
const SOON: Duration = Duration::from_secs(20);

fn root(spec: &mut SandboxSpec) {
    spec.user = Some("root".into());
}

#[test]
fn root_inside_cannot_change_the_agent_or_any_of_its_threads() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox_with(root);
    assert_eq!(backend.exec(&id, probe_file!("reach_agent.py")).line(), "tried True");
    assert_eq!(backend.exec(&id, ["echo", "served"]).line(), "served");
    backend.destroy(&id);
}

/// The agent's user is one of the sandbox's own range on the host, and nobody at all inside.
#[test]
fn the_agent_has_a_user_that_nobody_inside_can_have() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox_with(root);
    let found = backend.port().list().unwrap().into_iter().find(|found| found.id == id).unwrap();
    let agent = found.pid.unwrap();
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{agent}/{name}")).unwrap();
    let base: u32 = read("uid_map").split_whitespace().nth(1).unwrap().parse().unwrap();
    let own = (base + 65_535).to_string();
    let status = read("status");
    let ids = |key: &str| -> Vec<String> {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().skip(1).map(str::to_owned).collect()
    };
    // Real, effective and saved are its own; for files it is the sandbox's root.
    let expected = [own.as_str(), &own, &own, &base.to_string()].map(str::to_owned).to_vec();
    assert_eq!((ids("Uid:"), ids("Gid:")), (expected.clone(), expected));
    let body = "print(call(117, 65535, 65535, 65535), call(119, 65535, 65535, 65535))";
    let refused = backend.exec(&id, probe(body)).line();
    assert!(!refused.contains('0'), "nobody becomes the agent's user: {refused}");
    // What it starts has the user that was asked for, and only root has rights of its own.
    let rights = "id -u; id -g; id -G; sed -n 's/^Cap\\(Prm\\|Eff\\|Amb\\):\\t//p' /proc/self/status";
    let nobody = backend.follow(&id, as_user("65534", rights)).unwrap().line();
    let zero = "0000000000000000";
    assert_eq!(nobody.lines().next(), Some("65534"), "{nobody}");
    assert!(nobody.ends_with(&format!("{zero}\n{zero}\n{zero}")), "{nobody}");
    backend.destroy(&id);
}

fn as_user(user: &str, line: &str) -> warren_wire::guest::Start {
    warren_wire::guest::Start {
        argv: ["sh", "-c", line].map(Into::into).to_vec(),
        user: Some(user.into()),
        ..warren_wire::guest::Start::default()
    }
}

/// Stops everything that can be stopped, as fast as it can, until the file is gone; then lets all
/// go on.
const STOPPER: &str = "import signal, time\nopen('/tmp/stopping', 'w').close()\n\
    while os.path.exists('/tmp/stopping'):\n  error_of(lambda: os.kill(-1, signal.SIGSTOP))\n\
    error_of(lambda: os.kill(-1, signal.SIGCONT))\n";

fn begin_stopping(backend: &Backend<'_>, id: &SandboxId) {
    backend.spawn(id, probe(STOPPER));
    let agent = backend
        .port()
        .list()
        .expect("a list")
        .into_iter()
        .find(|found| found.id == *id)
        .and_then(|found| found.pid)
        .expect("it runs");
    eventually(Duration::from_secs(60), "the attack begins", || {
        std::fs::exists(format!("/proc/{agent}/root/tmp/stopping")).expect("its files can be seen")
    });
}

#[test]
fn children_that_are_stopped_on_their_way_do_not_stop_the_agent() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox_with(root);
    begin_stopping(&backend, &id);
    for _ in 0..20 {
        let began = Instant::now();
        let request = warren_wire::guest::Request::Start(as_user("root", "sleep 0.01"));
        let stream = backend.dial(&id);
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // Started or refused in words, but answered.
        match warren_wire::guest::Connection::ask(stream, &request) {
            Ok(_) | Err(warren_wire::guest::CallError::Failed(_)) => {}
            Err(other) => panic!("{other}"),
        }
        assert!(began.elapsed() < SOON, "an answer took {:?}", began.elapsed());
    }
    let pids = processes_of(id.as_str());
    let agent = backend.port().list().unwrap().into_iter().find(|found| found.id == id).unwrap().pid.unwrap();
    assert!(pids.contains(&agent), "the agent lives");
    std::fs::remove_file(format!("/proc/{agent}/root/tmp/stopping")).unwrap();
    eventually(Duration::from_secs(60), "commands run again", || {
        backend.follow(&id, as_user("root", "echo again")).is_ok_and(|result| result.line() == "again")
    });
    backend.destroy(&id);
}

#[test]
fn a_sandbox_that_stops_its_children_holds_up_no_other_and_not_the_server() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let (attacker, victim) = (server.create(), server.create());
    let stop = "import os, signal, time\ntime.sleep(1)\nwhile True:\n  try: os.kill(-1, signal.SIGSTOP)\n  except OSError: pass";
    let line = format!(
        "touch /tmp/x; setsid python3 -c '{}' >/dev/null 2>&1 </dev/null &",
        stop.replace('\'', "\"")
    );
    server.shell(&attacker, &line);
    let mut callers: Vec<_> = (0..24)
        .map(|_| {
            let mut command = server.command(["exec", &attacker, "--", "true"]);
            let quiet = std::process::Stdio::null;
            command.stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().unwrap()
        })
        .collect();
    for _ in 0..10 {
        let began = Instant::now();
        server.warren(["health"]).ok();
        assert!(began.elapsed() < SOON, "health took {:?}", began.elapsed());
        let began = Instant::now();
        assert_eq!(server.shell(&victim, "echo fine"), "fine");
        assert!(began.elapsed() < SOON, "another sandbox waited {:?}", began.elapsed());
    }
    for caller in &mut callers {
        caller.kill().unwrap();
        caller.wait().unwrap();
    }
    server.warren(["rm", &attacker]).ok();
    server.finish();
}
