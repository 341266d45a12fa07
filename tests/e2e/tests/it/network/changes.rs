//! Policies over time: no packet leaves that the policy of the moment does not allow.

use std::time::Duration;

use warren_e2e::{Internet, TestEnv, TestServer, eventually};

use super::{assert_closed, assert_open, create, finish, json, reach, serve};

/// Sends to everybody in the world, all the time, whatever comes of it.
const FLOOD: &str = r"
import socket, time
out = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
hosts = ['198.51.100.20', '203.0.113.80', '10.7.7.7', '169.254.169.254', '192.0.2.53', '198.51.100.53', '203.0.113.1']
while True:
    for host in hosts:
        for port in (53, 443, 9000):
            try: out[0].sendto(b'x' * 20, (host, port))
            except OSError: pass
        s = socket.socket(); s.setblocking(False)
        try: s.connect((host, 80))
        except OSError: pass
        s.close()
    # It has a share of questions, and others of its own programs want some.
    time.sleep(0.05)
";

fn flood(server: &TestServer<'_>, id: &str) {
    server.warren(["exec", "-d", id, "--", "python3", "-c", FLOOD]).ok();
}

#[test]
fn check_62_nothing_leaves_in_the_first_millisecond_or_while_things_change() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let mut server = serve(&env, &internet);
    let id = create(&server, &["--net", "allow", "--allow", "web.test"]);
    flood(&server, &id);
    assert_open(&server, &id, &["http", "web.test", "80"]);
    for _ in 0..5 {
        server.warren(["net", "set", &id, "allow=web.test,six.test"]).ok();
        server.warren(["net", "set", &id, "allow=web.test"]).ok();
        server.warren(["pause", &id]).ok();
        server.warren(["resume", &id]).ok();
    }
    server.kill();
    std::thread::sleep(Duration::from_millis(500));
    server.start_again();
    assert_open(&server, &id, &["http", "web.test", "80"]);
    server.warren(["stop", &id]).ok();
    server.warren(["resume", &id]).ok();
    flood(&server, &id);
    assert_open(&server, &id, &["http", "web.test", "80"]);
    assert_eq!(json(&server, &["net", "show", &id, "--json"])["policy"]["mode"], "allow");
    internet.assert_only(&["198.51.100.10", "192.0.2.53"]);
    let questions = internet.contacts_with("dns");
    assert!(questions.iter().all(|question| question.name == "web.test"), "{questions:?}");
    finish(server, &internet);
}

#[test]
fn a_policy_goes_with_snapshots_forks_and_rollbacks() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let id = create(&server, &["--net", "allow", "--allow", "web.test"]);
    server.shell(&id, "echo one > file");
    let snapshot = json(&server, &["snapshot", &id, "--json"])["snapshot_id"].as_str().unwrap().to_owned();
    server.shell(&id, "echo two > file");
    server.warren(["rollback", &id, &snapshot]).ok();
    let forks = json(&server, &["fork", &id, "-n", "2", "--json"]);
    let fork = |index: usize| forks["sandboxes"][index]["sandbox_id"].as_str().unwrap().to_owned();
    for id in [id.clone(), fork(0), fork(1)] {
        assert_eq!(server.shell(&id, "cat file"), "one");
        assert_open(&server, &id, &["http", "web.test", "80"]);
        assert_closed(&server, &id, &["http", "other.test", "80"]);
        assert_closed(&server, &id, &["udp", "198.51.100.20", "9000"]);
    }
    internet.assert_only(&["198.51.100.10", "192.0.2.53"]);
    finish(server, &internet);
}

#[test]
fn what_stays_allowed_goes_on_and_what_does_not_is_cut() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let id = create(&server, &["--net", "allow", "--allow", "web.test", "--allow", "other.test"]);
    for host in ["web", "other"] {
        server.shell(
            &id,
            &format!(
                "curl -s -N http://{host}.test/drip > /tmp/{host} 2>/dev/null & echo $! > /tmp/{host}.pid"
            ),
        );
    }
    let grows = |host: &str| {
        let size = || server.shell(&id, &format!("wc -c < /tmp/{host}")).trim().parse::<u64>().unwrap();
        let before = size();
        std::thread::sleep(Duration::from_millis(400));
        size() > before
    };
    eventually(Duration::from_secs(60), "both drip", || grows("web") && grows("other"));
    server.warren(["net", "set", &id, "allow=web.test"]).ok();
    eventually(Duration::from_secs(60), "one is cut", || !grows("other"));
    eventually(Duration::from_secs(60), "what stays allowed goes on", || grows("web"));
    server.warren(["net", "set", &id, "public"]).ok();
    eventually(Duration::from_secs(60), "what stays allowed goes on", || grows("web"));
    assert_open(&server, &id, &["http", "other.test", "80"]);
    // From the open net to a list: what went straight out is cut unless it is listed.
    server.shell(&id, "curl -s -N http://other.test/drip > /tmp/straight 2>/dev/null &");
    eventually(Duration::from_secs(60), "it drips", || grows("straight"));
    server.warren(["net", "set", &id, "allow=web.test"]).ok();
    eventually(Duration::from_secs(60), "it is cut", || !grows("straight"));
    finish(server, &internet);
}

#[test]
fn f32_a_table_that_somebody_flushes_is_restored_and_opens_nothing_meanwhile() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let (public, listed) = (server.create(), create(&server, &["--net", "allow", "--allow", "web.test"]));
    flood(&server, &listed);
    for harm in [
        "nft flush ruleset",
        "nft delete table inet $(nft list tables | awk '/warren/ {print $3}') || true",
        "nft flush ruleset",
    ] {
        internet.shell(harm);
        eventually(Duration::from_secs(60), "rules are back", || {
            reach(&server, &listed, &["http", "web.test", "80"]).0 == "open"
                && reach(&server, &public, &["http", "other.test", "80"]).0 == "open"
        });
        assert_closed(&server, &public, &["http", "10.7.7.7", "80"]);
        assert_closed(&server, &listed, &["http", "other.test", "80"]);
    }
    internet.assert_only(&["198.51.100.10", "198.51.100.20", "192.0.2.53"]);
    assert!(internet.contacts_with("udp").is_empty(), "{:?}", internet.contacts_with("udp"));
    finish(server, &internet);
}

#[test]
fn a_dead_server_opens_nothing() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let mut server = serve(&env, &internet);
    let id = create(&server, &["--net", "allow", "--allow", "web.test"]);
    assert_open(&server, &id, &["http", "web.test", "80"]);
    flood(&server, &id);
    let before = internet.packets().len();
    server.kill();
    std::thread::sleep(Duration::from_secs(2));
    let after: Vec<_> = internet.packets().split_off(before);
    assert!(after.iter().all(|packet| packet.to == "198.51.100.10"), "{after:?}");
    server.start_again();
    assert_open(&server, &id, &["http", "web.test", "80"]);
    internet.assert_only(&["198.51.100.10", "192.0.2.53"]);
    finish(server, &internet);
}
