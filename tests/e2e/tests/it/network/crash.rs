//! The next start finds every process, link and rule that a death left, at any step.

use warren_e2e::{Internet, TestEnv, TestServer};

use super::{assert_closed, assert_open, create, finish, json, serve};

#[test]
fn f30_a_server_that_is_killed_leaves_nothing_that_its_next_start_does_not_find() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let mut server = serve(&env, &internet);
    let kept = create(&server, &["--net", "allow", "--allow", "web.test"]);
    let doomed: Vec<String> = (0..5).map(|_| server.create()).collect();
    server.kill();
    // Some end while nobody looks.
    for id in &doomed {
        let found = env.backend();
        found.kill_first_process(&id.parse().unwrap());
    }
    server.start_again();
    assert_open(&server, &kept, &["http", "web.test", "80"]);
    assert_closed(&server, &kept, &["http", "other.test", "80"]);
    let links = || internet.shell("ip -o link | grep -c 'eth0\\|@if' || true");
    let elements = internet.shell("nft list ruleset | grep -o 'wrn[0-9a-f]*-[0-9a-f]*' | sort -u | wc -l");
    assert!(elements.parse::<u32>().unwrap() <= 40, "{elements} links are in the rules, {} exist", links());
    finish(server, &internet);
}

/// A run that is killed leaves an orphan, which the next process removes.
#[test]
fn f30_a_run_that_is_killed_leaves_nothing_to_whoever_comes_next() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let command = env.run_command(&["--net", "public"], ["sleep", "60"]);
    let mut child = internet.on_machine(&command).spawn().unwrap();
    warren_e2e::eventually(std::time::Duration::from_secs(60), "it runs", || {
        internet.shell("ip -o link | grep -c wrn || true") != "0"
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    child.kill().unwrap();
    child.wait().unwrap();
    let next = env.run_command(&["--net", "public"], ["true"]);
    assert!(internet.on_machine(&next).status().unwrap().success());
    internet.assert_only_rules(1);
}

#[test]
fn a_change_that_is_cut_short_is_made_or_not_and_never_wider() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    for step in ["engine.network.tightened", "engine.network.written", "engine.network.relaxed"] {
        let mut server = TestServer::setup(&env).inside(&internet).start();
        let id = create(&server, &["--net", "allow", "--allow", "web.test"]);
        server.kill();
        server.start_again_with(|setup| setup.crash_at(step));
        server.warren(["net", "set", &id, "allow=other.test"]);
        let status = server.ended(std::time::Duration::from_secs(60));
        assert!(!status.success(), "{step}: {status}");
        server.start_again();
        let policy = json(&server, &["net", "show", &id, "--json"]);
        let allow = policy["policy"]["allow"][0].as_str().unwrap().to_owned();
        let (open, closed) =
            if allow == "web.test" { ("web.test", "other.test") } else { ("other.test", "web.test") };
        assert_open(&server, &id, &["http", open, "80"]);
        assert_closed(&server, &id, &["http", closed, "80"]);
        finish(server, &internet);
    }
}
