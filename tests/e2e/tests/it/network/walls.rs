//! The same rules behind every wall: what a sandbox reaches does not depend on who starts it.

use warren_e2e::{Internet, TestEnv, TestServer};

use super::modes::check_52_and_63;
use super::{assert_closed, assert_open, create, finish, json, serve_behind};

fn rules_hold_behind(wall: &str) {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve_behind(&env, &internet, wall);
    let id = server.create();
    for what in [
        &["http", "web.test", "80"][..],
        &["tls", "web.test", "443"],
        &["http", "198.51.100.20", "8080"],
        &["udp", "198.51.100.10", "9000"],
        &["http", "six.test", "80"],
    ] {
        assert_open(&server, &id, what);
    }
    check_52_and_63(&server, &internet, &id);
    nobody_changes_them_inside(&server, &id);
    lists_hold_and_change(&server);
    neighbours_are_out_of_reach(&server, &id);
    finish(server, &internet);
}

/// Root inside has no right over the network that it is in, and sees no packet that is not its own.
fn nobody_changes_them_inside(server: &TestServer<'_>, id: &str) {
    for family in ["(17, 3, 768)", "(2, 3, 255)", "(2, 3, 6)", "(10, 3, 255)"] {
        let line = format!("import socket; socket.socket{family}");
        let made = server.warren(["exec", id, "-u", "root", "--", "python3", "-c", &line]);
        assert_ne!(made.code, Some(0), "{family}: {made:?}");
    }
    for line in [
        "nft flush ruleset",
        "ip link set lo down",
        "ip route add default dev lo",
        "ip link add d type dummy",
    ] {
        let tried =
            server.warren(["exec", id, "-u", "root", "--", "sh", "-c", &format!("PATH=$PATH:/sbin {line}")]);
        assert_ne!(tried.code, Some(0), "{line}: {tried:?}");
    }
    assert_open(server, id, &["http", "web.test", "80"]);
}

fn lists_hold_and_change(server: &TestServer<'_>) {
    let id = create(server, &["--net", "allow", "--allow", "web.test"]);
    assert_open(server, &id, &["http", "web.test", "80"]);
    assert_closed(server, &id, &["http", "198.51.100.20", "8080"]);
    server.warren(["net", "allow", &id, "198.51.100.20:8080"]).ok();
    assert_open(server, &id, &["http", "198.51.100.20", "8080"]);
    server.warren(["net", "set", &id, "none"]).ok();
    assert_closed(server, &id, &["http", "web.test", "80"]);
    server.warren(["pause", &id]).ok();
    server.warren(["resume", &id]).ok();
    assert_closed(server, &id, &["http", "web.test", "80"]);
}

fn neighbours_are_out_of_reach(server: &TestServer<'_>, id: &str) {
    let other = server.create();
    let listen = "import socket\ns = socket.create_server(('0.0.0.0', 8000))\nwhile True:\n  s.accept()[0].sendall(b'hello')";
    server.warren(["exec", &other, "--detach", "--", "python3", "-c", listen]).ok();
    let shown = json(server, &["net", "show", &other, "--json"]);
    let addresses = shown["addresses"].as_array().expect("a list");
    assert!(!addresses.is_empty(), "{shown}");
    for address in addresses {
        assert_closed(server, id, &["http", address.as_str().expect("text"), "8000"]);
    }
}

#[test]
fn rules_hold_behind_crun() {
    rules_hold_behind("crun");
}

#[test]
fn rules_hold_behind_runc() {
    rules_hold_behind("runc");
}

#[test]
fn rules_hold_behind_runsc() {
    rules_hold_behind("runsc");
}
