//! Our networks under a Docker engine: policies hold, and the door through which they come is put
//! right again when it is not there.

use std::time::Duration;

use serde_json::Value;
use warren_e2e::{DockerEngine, Internet, TestEnv, TestServer, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

fn serve<'env>(env: &'env TestEnv, engine: &DockerEngine, internet: &'env Internet) -> TestServer<'env> {
    let setup = TestServer::setup(env).inside(internet).set("network.enabled", "true");
    let setup = setup.set("backends.enabled", "[docker]");
    setup.set("backends.docker_socket", &engine.socket().to_string_lossy()).start()
}

fn create(server: &TestServer<'_>, network: &str) -> String {
    let words = ["create", "--image", DockerEngine::IMAGE, "--user", "root", "--net", network];
    server.warren(words).ok().line()
}

fn reaches(server: &TestServer<'_>, id: &str, address: &str) -> bool {
    let line = format!("exec 3<>/dev/tcp/{address} && head -c 1 <&3");
    server.warren(["exec", id, "--timeout", "20s", "--", "bash", "-c", &line]).text() == "2"
}

#[test]
fn network_policies_hold_in_sandboxes_of_docker() {
    let (env, engine) = (TestEnv::new(), DockerEngine::new());
    let internet = Internet::new(&env);
    let server = serve(&env, &engine, &internet);
    let (public, none) = (create(&server, "public"), create(&server, "none"));
    assert!(reaches(&server, &public, "198.51.100.10/2525"));
    for closed in ["10.7.7.7/2525", "169.254.169.254/80", "192.168.7.7/2525"] {
        assert!(!reaches(&server, &public, closed), "{closed}");
    }
    assert!(!reaches(&server, &none, "198.51.100.10/2525"));
    assert_eq!(server.shell(&none, "cat /etc/resolv.conf | head -1"), "nameserver 169.254.77.1");
    server.warren(["stop", &public]).ok();
    server.warren(["resume", &public]).ok();
    assert!(reaches(&server, &public, "198.51.100.10/2525"), "after another start");
    assert!(!reaches(&server, &public, "10.7.7.7/2525"));
    internet.assert_only(&["198.51.100.10"]);
    server.warren(["rm", &public, &none]).ok();
    eventually(PATIENCE, "the door went with the last", || engine.containers(&env.data_dir()).is_empty());
    server.finish();
}

#[test]
fn a_door_that_has_ended_is_opened_again_by_the_next_start() {
    let (env, engine) = (TestEnv::new(), DockerEngine::new());
    let internet = Internet::new(&env);
    let server = serve(&env, &engine, &internet);
    let one = create(&server, "public");
    let names = engine.containers(&env.data_dir());
    let door = names.iter().find(|name| name.contains("warren-door-")).expect("it is there");
    let door = door.trim_matches(['"', '/']).to_owned();
    assert_eq!(engine.ask("POST", &format!("/v1.41/containers/{door}/kill"), &[]).0, 204);
    eventually(PATIENCE, "it has ended", || {
        engine.described(&door)["State"]["Running"] == Value::Bool(false)
    });
    assert!(reaches(&server, &one, "198.51.100.10/2525"), "what runs needs no door");
    server.warren(["stop", &one]).ok();
    server.warren(["resume", &one]).ok();
    let two = create(&server, "none");
    assert!(reaches(&server, &one, "198.51.100.10/2525") && !reaches(&server, &two, "198.51.100.10/2525"));
    server.warren(["rm", &one, &two]).ok();
    eventually(PATIENCE, "the door went with the last", || engine.containers(&env.data_dir()).is_empty());
    server.finish();
}
