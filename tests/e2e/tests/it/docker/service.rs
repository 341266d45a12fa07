//! Sandboxes on images through the whole service: made, used, paused, stopped, kept over restarts
//! of the server and of the engine, and removed.

use std::time::Duration;

use serde_json::Value;
use warren_e2e::{DockerEngine, TestEnv, TestServer, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn serve<'env>(env: &'env TestEnv, engine: &DockerEngine) -> TestServer<'env> {
    let setup = TestServer::setup(env).set("backends.enabled", "[native,docker]");
    let settings = engine.settings();
    settings.iter().fold(setup, |setup, (key, value)| setup.set(key, value)).start()
}

pub(super) fn create(server: &TestServer<'_>) -> String {
    server.warren(["create", "--image", DockerEngine::IMAGE, "--user", "root"]).ok().line()
}

pub(super) fn is_gone(env: &TestEnv, engine: &DockerEngine) {
    eventually(PATIENCE, "nothing of it is left at the engine", || {
        engine.containers(&env.data_dir()).is_empty() && engine.volumes(&env.data_dir()).is_empty()
    });
}

#[test]
fn an_image_is_a_root_through_the_whole_life_of_a_sandbox() {
    let (env, engine) = (TestEnv::new(), DockerEngine::new());
    let mut server = serve(&env, &engine);
    let id = create(&server);
    let shown = server.client().sandbox(&id).unwrap();
    assert_eq!((shown.backend.as_str(), shown.image.as_deref()), ("docker", Some(DockerEngine::IMAGE)));
    assert_eq!(server.shell(&id, "echo $FROM_IMAGE; echo work > /root/notes"), "yes");
    server.warren(["pause", &id]).ok();
    assert!(engine.container(&id)["State"]["Paused"].as_bool().unwrap());
    server.warren(["resume", &id]).ok();
    assert_eq!(server.shell(&id, "cat /root/notes"), "work");
    server.warren(["stop", &id]).ok();
    assert_eq!(engine.container(&id)["State"]["Running"], Value::Bool(false));
    server.warren(["resume", &id]).ok();
    assert_eq!(server.shell(&id, "cat /root/notes"), "work");
    server.shell(&id, "sleep 1000 >/dev/null 2>&1 & echo $! > /root/sleeper");
    server.kill();
    server.start_again();
    assert_eq!(server.status(&id), "ready");
    assert_eq!(server.shell(&id, "kill -0 $(cat /root/sleeper) && echo alive"), "alive");
    server.warren(["rm", &id]).ok();
    eventually(PATIENCE, "its container is removed", || engine.containers(&env.data_dir()).is_empty());
    server.finish();
}

#[test]
fn what_an_image_cannot_have_is_refused_by_name_before_anything_is_made() {
    let (env, engine) = (TestEnv::new(), DockerEngine::new());
    let server = serve(&env, &engine);
    server.warren(["create", "--image", "nothing:1"]).ended(125).says("no image `nothing:1`");
    server.warren(["create", "--image", "../etc"]).ended(2).says("is no image");
    server.warren(["create", "--image", "little", "--template", "host"]).ended(2).says("--template");
    server.warren(["create", "--image", "little", "--disk", "1g"]).ended(125).says("capability `disk_quota`");
    server.warren(["create", "--backend", "docker"]).ended(125).says("capability `roots`");
    server
        .warren(["create", "--backend", "native", "--image", "little"])
        .ended(125)
        .says("capability `roots`");
    assert!(engine.containers(&env.data_dir()).is_empty(), "nothing was made");
    let id = create(&server);
    server.warren(["snapshot", &id, "--memory"]).ended(125).says("capability `memory_snapshots`");
    server.warren(["move", &id, "--backend", "native"]).ended(125).says("capability `roots`");
    assert_eq!(server.shell(&id, "echo on"), "on");
    server.warren(["rm", &id]).ok();
    server.finish();
}

#[test]
fn while_the_engine_is_away_sandboxes_are_unreachable_and_kept() {
    kept_while_away(&DockerEngine::new());
}

pub(super) fn kept_while_away(engine: &DockerEngine) {
    let env = TestEnv::new();
    let server = serve(&env, engine);
    let id = create(&server);
    server.shell(&id, "echo work > /root/notes; sleep 1000 >/dev/null 2>&1 & echo $! > /root/sleeper");
    engine.kill();
    let unreachable = || server.client().sandbox(&id).expect("it is known").unreachable;
    eventually(PATIENCE, "it is unreachable", || unreachable().is_some());
    assert_eq!(server.status(&id), "ready", "nothing is given up");
    server.warren(["create", "--image", "little"]).ended(125).says("docker");
    let native = server.create();
    assert_eq!(server.shell(&native, "echo on").trim_end(), "on", "others are not held up");
    engine.start();
    eventually(PATIENCE, "it is back", || unreachable().is_none());
    assert_eq!(server.shell(&id, "kill -0 $(cat /root/sleeper) && cat /root/notes"), "work");
    server.warren(["rm", &id]).ok();
    is_gone(&env, engine);
    server.warren(["rm", &native]).ok();
    server.finish();
}

#[test]
fn a_command_without_a_server_runs_on_an_image_and_leaves_nothing() {
    let (env, engine) = (TestEnv::new(), DockerEngine::new());
    let mut run =
        env.run_command(&["--backend", "docker", "--image", "little"], ["sh", "-c", "echo $FROM_IMAGE"]);
    run.env("WARREN_BACKENDS__DOCKER_SOCKET", engine.socket());
    let output = warren_e2e::Output::from(run.output().unwrap()).ok();
    assert_eq!(output.line(), "yes");
    eventually(PATIENCE, "its container is removed", || engine.containers(&env.data_dir()).is_empty());
}

#[test]
fn the_doctor_tells_an_engine_from_none() {
    let (env, engine) = (TestEnv::new(), DockerEngine::new());
    let ask = |socket: &str| {
        let mut doctor = env.command(["doctor"]);
        doctor.env("WARREN_BACKENDS__DOCKER_SOCKET", socket);
        warren_e2e::Output::from(doctor.output().unwrap()).text()
    };
    let here = ask(&engine.socket().to_string_lossy());
    assert!(here.contains("snapshots are copies"), "{here}");
    assert!(here.contains("API 1.4") && here.contains("while the engine is restarted"), "{here}");
    let away = ask("/nowhere/docker.sock");
    assert!(away.contains("the engine does not answer on `/nowhere/docker.sock`"), "{away}");
}
