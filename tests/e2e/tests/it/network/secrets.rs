//! Secrets that are put in at the edge.

use warren_e2e::{Internet, TestEnv, TestServer};

use super::{assert_closed, create, finish};

const VALUE: &str = "sk-e2e-7d0c1f6a9b";

#[test]
fn check_64_a_secret_reaches_its_host_and_never_the_sandbox() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let root = internet.path("ca.pem").display().to_string();
    let server = TestServer::setup(&env)
        .inside(&internet)
        .set("network.default", "public")
        .set("network.extra_ca", &root)
        .start();
    server.warren_fed(VALUE.as_bytes(), ["secret", "set", "web", "--host", "web.test"]).ok();
    server
        .warren_fed(
            VALUE.as_bytes(),
            ["secret", "set", "placed", "--host", "other.test", "--placeholder", "warren-placeholder-1"],
        )
        .ok();
    let id = create(
        &server,
        &[
            "--net",
            "allow",
            "--allow",
            "web.test",
            "--allow",
            "other.test",
            "--secret",
            "web",
            "--secret",
            "placed",
        ],
    );
    let tell = |line: &str| server.shell(&id, line);
    let code = tell(
        "curl -s -m 10 -o /tmp/answer -w '%{http_code}' -H 'Authorization: Bearer mine' https://web.test/v1",
    );
    assert_eq!(code, "200", "{}", server.log());
    let code = tell(
        "curl -s -m 10 -o /dev/null -w '%{http_code}' -H 'X-Api-Key: warren-placeholder-1' https://other.test/v1",
    );
    assert_eq!(code, "200");
    let seen = internet.contacts_with("https");
    let header = |host: &str, name: &str| {
        let contact = seen.iter().rev().find(|contact| contact.host.as_deref() == Some(host));
        contact.and_then(|contact| contact.headers.get(name).cloned()).unwrap_or_default()
    };
    assert_eq!(header("web.test", "authorization"), format!("Bearer {VALUE}"));
    assert_eq!(header("other.test", "x-api-key"), VALUE);
    // Python's own client and a plain request, which must not carry it.
    let python =
        "import urllib.request; print(urllib.request.urlopen('https://web.test/py', timeout=10).status)";
    assert_eq!(server.warren(["exec", &id, "--", "python3", "-c", python]).ok().line(), "200");
    tell("curl -s -m 10 -o /dev/null http://web.test/plain || true");
    assert!(
        internet
            .contacts_with("http")
            .iter()
            .all(|contact| !contact.headers.values().any(|value| value.contains(VALUE)))
    );
    // Another host gets nothing, whatever is asked for.
    tell("curl -s -m 10 -o /dev/null -H 'X-Api-Key: warren-placeholder-1' https://web.test/ || true");
    assert!(
        !internet.contacts_with("https").iter().any(|contact| contact
            .headers
            .get("x-api-key")
            .is_some_and(|key| key == VALUE)
            && contact.host.as_deref() == Some("web.test"))
    );
    assert_closed(&server, &id, &["tls", "198.51.100.10", "443", "other.test"]);

    // Nothing inside, in what is kept of it, in the log or in the catalog has it.
    // Written in two halves: what is run is itself on record.
    let (one, two) = VALUE.split_at(9);
    let found = tell(&format!(
        "v={one}''{two}; env | grep -v ^v= | grep -c \"$v\"; grep -rl \"$v\" /proc/*/environ /tmp /home /etc 2>/dev/null | wc -l"
    ));
    assert_eq!(found, "0\n0");
    server.warren(["snapshot", &id]).ok();
    assert!(!server.log().contains(VALUE));
    let grep = std::process::Command::new("grep").args(["-rl", VALUE]).arg(env.data_dir()).output().unwrap();
    assert!(grep.stdout.is_empty(), "{}", String::from_utf8_lossy(&grep.stdout));
    let listed = server.warren(["secret", "ls", "--json"]).ok().text();
    assert!(listed.contains("web.test") && !listed.contains(VALUE), "{listed}");

    // A sandbox that was not given it, and one whose secret is gone.
    let other = create(&server, &["--net", "allow", "--allow", "web.test"]);
    server.shell(&other, "curl -sk -m 10 -o /dev/null https://web.test/none || true");
    assert!(
        !internet
            .contacts_with("https")
            .iter()
            .any(|contact| contact.path == "/none" && contact.headers.contains_key("authorization"))
    );
    server.warren(["secret", "rm", "web"]).ok();
    let gone = tell("curl -s -m 10 -o /dev/null -w '%{http_code}' https://web.test/gone || true");
    assert_ne!(gone, "200");
    assert!(!internet.contacts_with("https").iter().any(|contact| contact.path == "/gone"));
    server.warren(["create", "--net", "public", "--secret", "nobody"]).ended(125).says("nobody");
    finish(server, &internet);
}
