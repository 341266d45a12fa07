//! The choice of a wall, as people make it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use warren_e2e::{Output, TestEnv, TestServer, eventually};

#[test]
fn backends_are_listed_and_chosen_by_name_and_tier() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let listed = server.warren(["backends", "--json"]).ok().json();
    let native = listed.as_array().unwrap().iter().find(|row| row["name"] == "native").unwrap();
    assert_eq!((&native["tier"], &native["on"]), (&"namespaces".into(), &true.into()));
    assert!(server.warren(["backends"]).ok().text().contains("native"));
    let id = server.warren(["create", "--tier", "namespaces", "--name", "web"]).ok().line();
    assert_eq!(server.client().sandbox(&id).unwrap().backend, "native");
    server.shell(&id, "echo work > notes");
    server.warren(["move", "web", "--tier", "namespaces"]).ok();
    server.warren(["move", "web", "--backend", "native"]).ok();
    assert_eq!(server.shell(&id, "cat notes").trim_end(), "work");
    server
        .warren(["move", "web", "--tier", "vm"])
        .ended(125)
        .says("its tier is `namespaces`, and `vm` is asked for");
    server
        .warren(["move", "web", "--backend", "nowhere"])
        .ended(125)
        .says("there is no backend of that name here");
    server.warren(["create", "--tier", "vm"]).ended(125).says("warren backends");
    server.warren(["create", "--tier", "gvisor"]).ended(2).says("user_kernel");
    server.warren(["move", "web"]).ended(2).says("--backend");
    server.finish();
}

#[test]
fn a_least_tier_is_held_and_what_runs_below_is_stopped_with_its_files() {
    let env = TestEnv::new();
    let mut server = TestServer::setup(&env).start();
    let id = server.create();
    server.shell(&id, "echo work > notes");
    server.terminate();
    server.start_again_with(|setup| setup.set("policy.minimum_tier", "user_kernel"));
    eventually(Duration::from_secs(60), "it is stopped", || server.status(&id) == "stopped");
    server.warren(["resume", &id]).ended(125).says("policy.minimum_tier");
    server.warren(["create"]).ended(125).says("is the least that is allowed");
    server.terminate();
    server.start_again_with(|setup| setup.set("policy.minimum_tier", "namespaces"));
    server.warren(["resume", &id]).ok();
    assert_eq!(server.shell(&id, "cat notes").trim_end(), "work");
    server.finish();
}

#[test]
fn a_sandbox_that_moves_has_the_id_range_of_its_new_backend_alone() {
    let env = TestEnv::new();
    let server = TestServer::setup(&env).set("backends.enabled", "native,crun").start();
    let id = server.create();
    server.shell(&id, "echo work > notes");
    let ranges = env.data_dir().join("ranges");
    let links = || -> Vec<PathBuf> {
        let links = fs::read_dir(&ranges).unwrap().flatten();
        links.filter_map(|link| fs::read_link(link.path()).ok()).filter(|text| text.ends_with(&id)).collect()
    };
    assert_eq!(links(), [PathBuf::from(&id)]);
    for (backend, claim) in [("crun", Path::new("oci/crun").join(&id)), ("native", PathBuf::from(&id))]
        .into_iter()
        .cycle()
        .take(4)
    {
        server.warren(["move", &id, "--backend", backend]).ok();
        assert_eq!(server.shell(&id, "cat notes").trim_end(), "work");
        // What it left is removed in the background, its claims last.
        eventually(Duration::from_secs(60), "what it left is removed", || {
            let trash = ["trash", "oci/crun/trash"].map(|place| env.data_dir().join(place));
            trash.iter().all(|trash| fs::read_dir(trash).unwrap().next().is_none())
        });
        assert_eq!(links(), [claim], "{backend}");
        assert_eq!(server.shell(&id, "cat notes").trim_end(), "work", "it goes on");
    }
    server.finish();
}

#[test]
fn a_command_without_a_server_chooses_its_wall_too() {
    let env = TestEnv::new();
    for flags in [["--backend", "native"], ["--tier", "namespaces"]] {
        assert_eq!(env.run_with(&flags, ["echo", "inside"]).ok().line(), "inside");
    }
    env.run_with(&["--backend", "nowhere"], ["true"]).ended(125).says("there is no backend `nowhere`");
    env.run_with(&["--tier", "vm"], ["true"]).ended(125).says("native: its tier is `namespaces`");
    env.assert_clean();
}

/// Runs `warren` with these settings besides.
fn run_under(env: &TestEnv, settings: &[(&str, &str)], flags: &[&str]) -> Output {
    let mut run = env.run_command(flags, ["uname", "-r"]);
    run.envs(settings.iter().copied());
    Output::from(run.output().expect("warren can be started"))
}

#[test]
fn a_command_without_a_server_keeps_to_the_policy() {
    let env = TestEnv::new();
    let least = |tier| [("WARREN_POLICY__MINIMUM_TIER", tier)];
    run_under(&env, &least("namespaces"), &[]).ok();
    run_under(&env, &least("{ada: vm}"), &[]).ok();
    for flags in ["", "--backend native", "--tier namespaces", "-d"] {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        run_under(&env, &least("{ada: namespaces, '*': vm}"), &flags)
            .ended(125)
            .says("native: its tier is `namespaces`, and `vm` is");
    }
    let templates = [("WARREN_POLICY__TEMPLATE_TIERS", "{host: vm}")];
    run_under(&env, &templates, &[]).ended(125).says("there is no backend of the tier `vm`");
    run_under(&env, &templates, &["--tier", "namespaces"]).ok();
    env.assert_clean();
}

#[test]
fn what_stays_on_this_machine_is_found_by_its_backend() {
    let env = TestEnv::new();
    for stays in ["--keep", "-d"] {
        env.run_with(&["--backend", "crun", stays], ["true"])
            .ended(125)
            .says("crun is not in backends.enabled");
    }
    env.run_with(&["--backend", "crun"], ["true"]).ok();
    let on = [("WARREN_BACKENDS__ENABLED", "native,crun")];
    let id = run_under(&env, &on, &["-d", "--backend", "crun"]).ok().line();
    let server = TestServer::setup(&env).set("backends.enabled", "native,crun").start();
    // The server does not know it.
    let told = |words: &[&str]| Output::from(env.command(words).envs(on).output().unwrap());
    assert_eq!(told(&["exec", &id, "--", "echo", "found"]).ok().line(), "found");
    told(&["rm", &id]).ok();
    server.finish();
}
