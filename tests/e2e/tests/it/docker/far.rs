//! An engine on another machine: reached over TLS by who has a certificate, with nothing shared but
//! that. It runs on this machine, where its containers can be looked at.

use std::fs;
use std::time::Duration;

use warren_e2e::{Authority, DockerEngine, TestEnv, eventually};

use super::service::{create, is_gone, kept_while_away, serve};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_sandbox_elsewhere_lives_through_a_day() {
    let (env, engine) = (TestEnv::new(), DockerEngine::elsewhere());
    let mut server = serve(&env, &engine);
    let id = create(&server);
    assert_eq!(server.shell(&id, "echo $FROM_IMAGE; echo work > /root/notes"), "yes");
    assert_eq!(server.shell(&id, "ls -A / | grep warren"), ".warren", "its plan is in nobody's way");
    server.shell(&id, "head -c 20000000 /dev/zero > /root/much");
    assert_eq!(server.shell(&id, "cat /root/much | wc -c"), "20000000");
    let much = env.data_dir().join("much");
    server.warren(["cp", &format!("{id}:/root/much"), &much.to_string_lossy()]).ok();
    assert_eq!(fs::metadata(&much).unwrap().len(), 20_000_000);
    server.warren(["pause", &id]).ok();
    server.warren(["resume", &id]).ok();
    server.warren(["stop", &id]).ok();
    server.warren(["resume", &id]).ok();
    assert_eq!(server.shell(&id, "cat /root/notes"), "work");
    server.shell(&id, "sleep 1000 >/dev/null 2>&1 & echo $! > /root/sleeper");
    server.kill();
    server.start_again();
    assert_eq!(server.status(&id), "ready");
    assert_eq!(server.shell(&id, "kill -0 $(cat /root/sleeper) && echo alive"), "alive");
    let usage = server.client().usage(&id).unwrap();
    assert!(usage.memory_bytes > 0 && usage.pids > 1, "the engine's figures");
    server.warren(["snapshot", &id]).ended(125).says("capability `snapshots`");
    server.warren(["create", "--image", "little", "--net", "public"]).ended(125).says("capability `network`");
    server.warren(["rm", &id]).ok();
    is_gone(&env, &engine);
    server.finish();
}

#[test]
fn an_end_elsewhere_is_noticed() {
    let (env, engine) = (TestEnv::new(), DockerEngine::elsewhere());
    let server = serve(&env, &engine);
    let id = create(&server);
    engine.ask("POST", &format!("/v1.41/containers/warren-{id}/kill"), &[]);
    eventually(PATIENCE, "its end is noticed", || server.status(&id) != "ready");
    server.warren(["rm", &id]).ok();
    server.finish();
}

#[test]
fn while_an_engine_elsewhere_is_away_its_sandboxes_are_kept() {
    kept_while_away(&DockerEngine::elsewhere());
}

#[test]
fn nobody_is_taken_for_the_engine_and_the_engine_takes_nobody_for_us() {
    let (env, engine) = (TestEnv::new(), DockerEngine::elsewhere());
    let stranger = env.data_dir().join("stranger");
    Authority::new().write(&stranger);
    // Knows the engine, and is not known to it.
    let half = env.data_dir().join("half");
    Authority::new().write(&half);
    fs::copy(engine.certificates().join("ca.pem"), half.join("ca.pem")).unwrap();
    let doctor = |host: &str, certificates: &str| {
        let mut doctor = env.command(["doctor"]);
        doctor.env("WARREN_BACKENDS__ENABLED", "[docker]").env("WARREN_BACKENDS__DOCKER_HOST", host);
        doctor.env("WARREN_BACKENDS__DOCKER_CERTIFICATES", certificates);
        warren_e2e::Output::from(doctor.output().unwrap()).text()
    };
    let settings = engine.settings();
    let (host, right) = (&settings[0].1, &settings[1].1);
    let found = doctor(host, right);
    assert!(found.contains(host.as_str()) && found.contains("on another machine"), "{found}");
    let found = doctor(host, &stranger.to_string_lossy());
    assert!(found.contains("certificate"), "{found}");
    let found = doctor(host, &half.to_string_lossy());
    assert!(found.contains("the engine does not answer"), "{found}");
    let found = doctor("tcp://build.example:2376", "");
    assert!(found.contains("backends.docker_certificates"), "{found}");
    let found = doctor(host, "/nowhere");
    assert!(found.contains("/nowhere/ca.pem"), "{found}");
    let found = doctor("ssh://build.example", "");
    assert!(found.contains("backends.docker_host") && found.contains("tcp://HOST:PORT"), "{found}");
}

/// Root inside can do much to the place of the agent's plan and to its socket.
#[test]
fn root_inside_keeps_nobody_from_starting_or_ending_his_sandbox() {
    let (env, engine) = (TestEnv::new(), DockerEngine::elsewhere());
    let server = serve(&env, &engine);
    let id = create(&server);
    let written = server.shell(&id, "cp /usr/bin/true /.warren/warren-guest && echo written; true");
    assert_eq!(written, "", "the agent's place is read-only");
    for trap in ["mkdir -p /.warren-plan/in", "ln -s /etc/passwd /.warren-plan", "mkfifo /.warren-plan"] {
        server.shell(&id, &format!("rm -rf /.warren-plan; {trap}"));
        server.warren(["stop", &id]).ok();
        server.warren(["resume", &id]).ok();
        assert_eq!(
            server.shell(&id, "ls -A / | grep warren; head -1 /etc/passwd"),
            ".warren\nroot:x:0:0:root:/root:/bin/bash"
        );
    }
    // Without its socket nobody gets in any more, and the owner still ends it.
    server.shell(
        &id,
        "rm -f /.warren/run/agent.sock; dd if=/dev/zero of=/.warren/run/full bs=1k 2>/dev/null; true",
    );
    server.warren(["stop", &id]).ok();
    server.warren(["resume", &id]).ok();
    assert_eq!(server.shell(&id, "echo on"), "on");
    server.warren(["rm", &id]).ok();
    is_gone(&env, &engine);
    server.finish();
}
