//! The traffic that each mode lets out of the machine.

use warren_e2e::{Internet, TestEnv};

use super::{assert_closed, assert_open, assert_unheard, create, finish, json, serve};

/// Servers in the world that answer and must never be reached.
const TRAPS: [&str; 6] =
    ["10.7.7.7", "169.254.169.254", "100.64.7.7", "192.168.7.7", "172.16.7.7", "fd00:7::7"];

#[test]
fn public_is_the_internet_and_nothing_private() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let id = server.create();
    assert_eq!(json(&server, &["net", "show", &id, "--json"])["policy"]["mode"], "public");
    for what in [
        &["http", "web.test", "80"][..],
        &["tls", "web.test", "443"],
        &["http", "198.51.100.20", "8080"],
        &["banner", "web.test", "2525"],
        &["udp", "198.51.100.10", "9000"],
        &["ping", "198.51.100.10"],
        &["http", "six.test", "80"],
    ] {
        assert_open(&server, &id, what);
    }
    check_52_and_63(&server, &internet, &id);
    internet.assert_only(&["198.51.100.10", "198.51.100.20", "192.0.2.53", "2001:db8:1::10"]);
    finish(server, &internet);
}

pub(super) fn check_52_and_63(server: &warren_e2e::TestServer<'_>, internet: &Internet, id: &str) {
    for trap in TRAPS {
        assert_closed(server, id, &["http", trap, "80"]);
        assert_closed(server, id, &["tls", trap, "443"]);
        assert_closed(server, id, &["udp", trap, "9000"]);
        assert_closed(server, id, &["ping", trap]);
    }
    // The machine itself: its uplink, its side of the test's own link, and the gateway that
    // sandboxes see; check 74 among them.
    let port = server.address().rsplit(':').next().unwrap_or_default().to_owned();
    let own = internet.address();
    for address in [warren_e2e::UPLINK, own.as_str(), "169.254.77.1", "2001:db8:2::1"] {
        assert_closed(server, id, &["http", address, &port]);
        assert_closed(server, id, &["udp", address, "9000"]);
    }
    for broadcast in ["255.255.255.255", "224.0.0.251", "203.0.113.255", "0.0.0.0"] {
        assert_unheard(server, id, &["udp", broadcast, "9000"]);
    }
}

#[test]
fn none_is_loopback_alone() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let id = create(&server, &["--net", "none"]);
    for what in
        [&["http", "198.51.100.10", "80"][..], &["udp", "192.0.2.53", "53"], &["http", "web.test", "80"]]
    {
        assert_closed(&server, &id, what);
    }
    assert_eq!(
        server
            .shell(&id, "ls /sys/class/net 2>/dev/null; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"),
        "lo"
    );
    internet.assert_only(&[]);
    finish(server, &internet);
}

#[test]
fn check_54_and_61_a_list_opens_what_it_names_and_never_what_is_closed() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let id = create(&server, &["--net", "allow", "--allow", "web.test", "--allow", "198.51.100.20:8080"]);
    assert_open(&server, &id, &["http", "web.test", "80"]);
    assert_open(&server, &id, &["tls", "web.test", "443"]);
    assert_open(&server, &id, &["banner", "web.test", "2525"]);
    assert_open(&server, &id, &["http", "198.51.100.20", "8080"]);
    for what in [
        &["http", "198.51.100.20", "80"][..],
        &["http", "other.test", "80"],
        &["tls", "other.test", "443"],
        &["http", "api.web.test", "80"],
        &["udp", "198.51.100.10", "9000"],
        &["udp", "198.51.100.10", "443"],
        &["ping", "198.51.100.10"],
        &["http", "203.0.113.80", "80"],
        &["http", "10.7.7.7", "80"],
    ] {
        assert_closed(&server, &id, what);
    }
    let wide = create(&server, &["--net", "allow", "--allow", "0.0.0.0/0", "--allow", "*"]);
    assert_open(&server, &wide, &["http", "other.test", "80"]);
    check_52_and_63(&server, &internet, &wide);
    let closed = create(&server, &["--net", "allow"]);
    for what in
        [&["http", "web.test", "80"][..], &["http", "198.51.100.10", "80"], &["udp", "198.51.100.10", "9000"]]
    {
        assert_closed(&server, &closed, what);
    }
    server
        .warren(["create", "--net", "allow", "--allow", "10.0.0.0/8"])
        .ended(125)
        .says("closed to every sandbox");
    server.warren(["create", "--net", "allow", "--allow", "ex ample"]).ended(2);
    internet.assert_only(&["198.51.100.10", "198.51.100.20", "192.0.2.53"]);
    finish(server, &internet);
}

#[test]
fn what_the_operator_excepts_is_open_to_those_whose_policy_says_so() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = warren_e2e::TestServer::setup(&env)
        .inside(&internet)
        .set("network.default", "public")
        .set("network.exceptions", "[\"10.7.7.7:8080\"]")
        .start();
    let (public, listed) =
        (server.create(), create(&server, &["--net", "allow", "--allow", "10.7.7.7:8080"]));
    for id in [&public, &listed] {
        // Somebody there takes the connection and says nothing: that he was reached is what counts.
        server.shell(id, "curl -s -m 3 http://10.7.7.7:8080/ || true");
        assert_closed(&server, id, &["http", "10.7.7.7", "80"]);
        assert_closed(&server, id, &["http", "192.168.7.7", "8080"]);
    }
    let traps = internet.contacts_with("trap");
    assert_eq!(traps.len(), 2, "{traps:?}");
    assert!(traps.iter().all(|trap| trap.port == 8080 && trap.address == "10.7.7.7"), "{traps:?}");
    finish(server, &internet);
}

#[test]
fn a_run_without_a_server_has_the_same_network() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let run = |flags: &[&str], line: &str| {
        let command = env.run_command(flags, ["sh", "-c", line]);
        let mut command = internet.on_machine(&command);
        let output = command
            .env("WARREN_NETWORK__DNS", format!("[\"{}\"]", warren_e2e::RESOLVER))
            .output()
            .expect("warren runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let page =
        "curl -s -m 5 http://198.51.100.10/; curl -s -m 5 -o /dev/null -w '%{http_code}' http://10.7.7.7/";
    let open = run(&["--net", "public"], page);
    assert!(open.contains("\"path\"") && open.ends_with("403"), "{open}");
    let listed = run(&["--net", "allow", "--allow", "198.51.100.20"], page);
    assert!(!listed.contains("\"path\"") && listed.ends_with("403"), "{listed}");
    assert_eq!(run(&["--net", "none"], page), "000");
    internet.assert_only(&["198.51.100.10", "192.0.2.53"]);
    internet.assert_only_rules(1);
}
