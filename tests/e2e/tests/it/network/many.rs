//! Many at a time.

use std::time::Duration;

use warren_e2e::{Internet, TestEnv, TestServer, eventually};

use super::{assert_closed, assert_open, create, finish, serve};

#[test]
fn two_hundred_sandboxes_have_two_hundred_policies() {
    let env = TestEnv::alone();
    let internet = Internet::new(&env);
    let names: serde_json::Map<String, serde_json::Value> =
        (0..200).map(|n| (format!("n{n}.test"), serde_json::json!(["198.51.100.10"]))).collect();
    internet.zone(serde_json::Value::Object(names));
    let server = TestServer::setup(&env).inside(&internet).set("limits.max_sandboxes", "250").start();
    let rules = || internet.shell("nft -a list ruleset | grep -c 'handle' || true").parse::<i64>().unwrap();
    let statements = || {
        internet.shell("nft list ruleset | grep -cE 'accept|drop|reject|redirect|masquerade|jump|goto|return' || true").parse::<i64>().unwrap()
    };
    let first = create(&server, &["--net", "allow", "--allow", "n0.test"]);
    let (before, lines) = (rules(), statements());
    let mut ids = vec![first];
    ids.extend((1..200).map(|n| create(&server, &["--net", "allow", "--allow", &format!("n{n}.test")])));
    // Maps are printed with their elements, so lines may be longer but rules are not more.
    assert!(rules() <= before + 8, "{} rules grew to {}", before, rules());
    assert!(statements() <= lines + 220, "{lines} lines grew to {}", statements());
    for (n, id) in ids.iter().enumerate().step_by(17) {
        assert_open(&server, id, &["http", &format!("n{n}.test"), "80"]);
        assert_closed(&server, id, &["http", &format!("n{}.test", (n + 1) % 200), "80"]);
    }
    internet.assert_only(&["198.51.100.10", "192.0.2.53"]);
    finish(server, &internet);
}

#[test]
fn check_49_one_sandbox_does_not_use_up_the_machines_connections() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let (greedy, other) = (server.create(), server.create());
    let flows = "import socket
out = 0
for port in range(20000):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try: s.sendto(b'x', ('198.51.100.10', 20000 + port)); out += 1
    except OSError: pass
    s.close()
print(out)";
    server.warren(["exec", &greedy, "--", "python3", "-c", flows]).ok();
    let tracked: u64 = internet.shell("cat /proc/sys/net/netfilter/nf_conntrack_count").parse().unwrap();
    assert!(tracked < 8000, "{tracked} flows are tracked");
    assert_open(&server, &other, &["http", "web.test", "80"]);
    finish(server, &internet);
}

#[test]
fn bandwidth_is_held_both_ways() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let client = server.client();
    let body = serde_json::json!({
        "template": "host",
        "network": {"mode": "public", "limits": {"down_bytes_per_s": 1_000_000, "up_bytes_per_s": 1_000_000}},
    });
    let made = client.create_sandbox(&serde_json::from_value(body).unwrap(), None).unwrap();
    let id = made.sandbox_id.clone();
    let seconds = |line: &str| server.shell(&id, line).parse::<f64>().unwrap();
    let down = seconds("curl -s -m 30 -o /dev/null -w '%{time_total}' http://web.test/bytes/3000000");
    let up = seconds(
        "head -c 3000000 /dev/zero > /tmp/x; curl -s -m 30 -o /dev/null -w '%{time_total}' --data-binary @/tmp/x http://web.test/",
    );
    assert!((1.5..12.0).contains(&down), "3 MB came in {down} s");
    assert!((1.5..12.0).contains(&up), "3 MB went in {up} s");
    let free = server.create();
    eventually(Duration::from_secs(60), "others are not slowed down", || {
        server
            .shell(&free, "curl -s -m 30 -o /dev/null -w '%{time_total}' http://web.test/bytes/3000000")
            .parse::<f64>()
            .unwrap()
            < 1.0
    });
    finish(server, &internet);
}
