//! Images of registries: Debian's registry with images of our own, and one that lies.

mod liar;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use warren_e2e::{
    LOGIN, Output, Registry, RegistryKind, TestEnv, TestServer, eventually, image_layout, make_small_root,
};

use crate::templates::small_root;
use liar::{Liar, digest};

/// Packs a directory as a layer.
fn pack(root: &Path, at: PathBuf) -> PathBuf {
    let packed = Command::new("tar")
        .arg("-czf")
        .arg(&at)
        .arg("-C")
        .arg(root)
        .arg(".")
        .output()
        .expect("the test has its files");
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    at
}

/// A layer with one file.
fn layer(env: &TestEnv, name: &str, content: &[u8]) -> PathBuf {
    let root = env.path(&format!("layer-{name}"));
    fs::create_dir_all(root.join("srv")).expect("the test has its files");
    fs::write(root.join("srv").join(name), content).expect("the test has its files");
    pack(&root, env.path(&format!("{name}.tar.gz")))
}

/// A layer with a shell and a few tools.
fn base(env: &TestEnv) -> PathBuf {
    small_root(&env.path("root")).expect("the test has its files");
    pack(&env.path("root"), env.path("base.tar.gz"))
}

fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).expect("the test has its files");
    bytes
}

/// `warren template pull` with this registry among those without TLS.
fn pull(env: &TestEnv, host: &str, words: &[&str]) -> Output {
    let mut command = env.command(["template", "pull"]);
    command.args(words).env("WARREN_IMAGES__PLAIN_HTTP", host);
    command.output().expect("the test has its files").into()
}

#[test]
fn an_image_is_pulled_and_runs() {
    let env = TestEnv::new();
    let registry = Registry::new(&env, RegistryKind::Plain);
    let config = json!({"Env": ["PATH=/bin", "GREETING=hello there"], "WorkingDir": "/srv", "User": "root",
        "Entrypoint": ["/bin/sh"]});
    image_layout(&env.path("image"), &[base(&env), layer(&env, "word", b"from above")], &config);
    registry.push(&env.path("image"), "made/app:1.0");
    let name = format!("{}/made/app:1.0", registry.host());
    let refused = env.warren(["template", "pull", &name]).ended(125);
    assert!(refused.errors().contains("registry_unavailable"), "it speaks no TLS: {refused:?}");
    pull(&env, &registry.host(), &[&name, "--name", "app"]).ok();
    let output = env.run_with(&["--template", "app"], ["sh", "-c", "echo $GREETING; cat word"]).ok();
    assert_eq!(output.text(), "hello there\nfrom above");
    pull(&env, &registry.host(), &[&name, "--name", "app"]).ended(125).says("already exists");
    pull(&env, &registry.host(), &[&name, "--name", "app", "--replace"]).ok();
    let listed = env.warren(["template", "ls", "--json"]).ok().json();
    let app = listed.as_array().unwrap().iter().find(|template| template["name"] == "app").unwrap().clone();
    assert_eq!((&app["source"], &app["config"]["command"]), (&json!("oci-image"), &json!(["/bin/sh"])));
    pull(&env, &registry.host(), &[&format!("{}/made/none", registry.host())])
        .ended(125)
        .says("image_not_found");
    env.warren(["template", "rm", "app"]).ok();
    assert_eq!(layers(&env), Vec::<String>::new(), "its layers went with it");
}

#[test]
fn credentials_open_a_registry_with_tls() {
    let env = TestEnv::new();
    let registry = Registry::new(&env, RegistryKind::Closed);
    image_layout(&env.path("image"), &[base(&env)], &json!({}));
    registry.push(&env.path("image"), "private:1");
    let name = format!("{}/private:1", registry.host());
    let pull = |words: &[&str], password: &str| {
        let mut command = env.command(["template", "pull", &name, "--name", "private", "--replace"]);
        command.args(words).env("WARREN_IMAGES__EXTRA_CA", registry.certificate()).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
        Output::from(child.wait_with_output().unwrap())
    };
    env.warren(["template", "pull", &name, "--name", "private"]).ended(125).says("registry_unavailable");
    pull(&[], "").ended(125).says("registry_denied");
    let wrong = pull(&["--username", LOGIN.0], "wrong-password\n").ended(125).says("registry_denied");
    assert!(!wrong.errors().contains("wrong-password"), "{wrong:?}");
    pull(&["--username", LOGIN.0], &format!("{}\n", LOGIN.1)).ok();
    // As a login of another program leaves it.
    let auths = json!({"auths": {(registry.host()): {"username": LOGIN.0, "password": LOGIN.1}}});
    fs::create_dir_all(env.path(".docker")).unwrap();
    fs::write(env.path(".docker/config.json"), auths.to_string()).unwrap();
    pull(&[], "").ok();
    env.run_with(&["--template", "private"], ["ls", "/"]).ok();
}

#[test]
fn a_server_pulls_and_tells_how_far_it_is() {
    let env = TestEnv::new();
    let registry = Registry::new(&env, RegistryKind::Plain);
    image_layout(&env.path("image"), &[base(&env), layer(&env, "big", &noise(8 << 20))], &json!({}));
    registry.push(&env.path("image"), "app:2");
    let server = TestServer::setup(&env).set("images.plain_http", &registry.host()).start();
    let image = format!("{}/app:2", registry.host());
    let body = json!({"image": image, "name": "pulled"});
    let bearer = format!("Bearer {}", server.key());
    let headers = [("accept", "text/event-stream"), ("authorization", bearer.as_str())];
    let told = server.ask_with("POST", "/v1/templates", &headers, Some(&body));
    let text = String::from_utf8_lossy(&told.body).into_owned();
    assert!(text.contains("event: progress") && text.contains("event: template"), "{text}");
    let again = server.ask("POST", "/v1/templates", Some(&body));
    assert_eq!((again.status, again.code().as_str()), (409, "already_exists"));
    let listed = server.ask("GET", "/v1/templates/pulled", None).json();
    assert_eq!((&listed["source"], &listed["image"]), (&json!("image"), &json!(image)));
    for (body, code) in [
        (json!({"image": "not an image"}), "invalid_value"),
        (json!({"image": format!("{}/none", registry.host())}), "image_not_found"),
        (json!({"image": image, "name": "x", "username": "ada"}), "invalid_value"),
    ] {
        assert_eq!(server.ask("POST", "/v1/templates", Some(&body)).code(), code, "{body}");
    }
    server.warren(["template", "pull", &image, "--name", "by-command"]).ok();
    server.warren(["run", "--template", "by-command", "ls", "/srv"]).ok();
}

#[test]
fn a_build_of_e2b_begins_with_an_image_that_it_has_pulled() {
    let env = TestEnv::new();
    let registry = Registry::new(&env, RegistryKind::Plain);
    make_small_root(&env.path("whole"));
    image_layout(&env.path("image"), &[pack(&env.path("whole"), env.path("whole.tar.gz"))], &json!({}));
    registry.push(&env.path("image"), "tools:3");
    let image = format!("{}/tools:3", registry.host());
    let server = TestServer::setup(&env);
    let server =
        server.set("images.plain_http", &registry.host()).set("images.open", &registry.host()).start();
    let ask = |method: &str, path: &str, body: Option<&Value>| {
        server.ask_with(method, &format!("/e2b{path}"), &[("x-api-key", server.key())], body)
    };
    let build = |image: &str| {
        let announced = ask("POST", "/v3/templates", Some(&json!({"name": "app"}))).json();
        let word = |name: &str| announced[name].as_str().unwrap().to_owned();
        let place = format!("/templates/{}/builds/{}", word("templateID"), word("buildID"));
        let body = json!({"fromImage": image, "steps": [{"type": "RUN", "args": ["echo made > /tmp/made"]}]});
        (ask("POST", &format!("/v2{place}"), Some(&body)), place)
    };
    let (begun, place) = build(&image);
    assert_eq!(begun.status, 202, "{}", String::from_utf8_lossy(&begun.body));
    let status = || ask("GET", &format!("{place}/status"), None).json();
    let over = || !matches!(status()["status"].as_str(), Some("building" | "waiting"));
    eventually(Duration::from_secs(120), "the build ends", over);
    assert_eq!(status()["status"], "ready", "{}", status());
    assert!(status()["logEntries"].to_string().contains(&format!("Pulling {image}")), "{}", status());
    let template = image.replace(['/', ':'], "-");
    assert_eq!(server.ask("GET", &format!("/v1/templates/{template}"), None).json()["image"], json!(image));
    let (closed, _) = build("closed.example/tools");
    assert_eq!(closed.status, 400);
    assert!(String::from_utf8_lossy(&closed.body).contains("images.open"), "{closed:?}");
}

/// Layers that are kept.
fn layers(env: &TestEnv) -> Vec<String> {
    let names = fs::read_dir(env.data_dir().join("blobs")).expect("the test has its files");
    let names = names.map(|entry| {
        entry.expect("the test has its files").file_name().into_string().expect("the test has its files")
    });
    names.filter(|name| name != ".lock").collect()
}

fn largest_blob(env: &TestEnv) -> u64 {
    let sizes = fs::read_dir(env.data_dir().join("blobs")).into_iter().flatten();
    sizes.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).max().unwrap_or(0)
}

fn templates(env: &TestEnv) -> Vec<String> {
    let names = fs::read_dir(env.data_dir().join("templates")).expect("the test has its files");
    let mut names: Vec<_> = names
        .map(|entry| {
            entry.expect("the test has its files").file_name().into_string().expect("the test has its files")
        })
        .collect();
    names.retain(|name| name != ".lock");
    names.sort();
    names
}

#[test]
fn a_pull_that_is_killed_leaves_nothing_and_goes_on() {
    let env = TestEnv::new();
    let size = 24 << 20;
    let (liar, image) = Liar::with_layers(&env, &[base(&env), layer(&env, "big", &noise(size))]);
    for after in [0, 1 << 20, 6 << 20, 14 << 20] {
        liar.pause_after(after);
        let mut command = env.command(["template", "pull", &image, "--name", "killed"]);
        let mut child = command.env("WARREN_IMAGES__PLAIN_HTTP", liar.host()).spawn().unwrap();
        eventually(Duration::from_secs(60), "it comes as far as that", || {
            liar.is_paused() && largest_blob(&env) >= after as u64
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!templates(&env).contains(&"killed".to_owned()));
        liar.go_on();
    }
    let before = liar.sent();
    pull(&env, &liar.host(), &[&image, "--name", "killed"]).ok();
    let fetched = liar.sent() - before;
    assert!(fetched < size - (10 << 20), "{fetched} bytes were fetched although 14 MiB were there");
    assert_eq!(templates(&env), ["killed"]);
    assert!(layers(&env).iter().all(|name| !name.ends_with(".partial")), "{:?}", layers(&env));
    let seen = env.run_with(&["--template", "killed"], ["stat", "-c", "%s", "/srv/big"]).ok();
    assert_eq!(seen.line(), size.to_string());
}

#[test]
fn whenever_a_pull_is_killed_there_is_a_whole_template_or_none() {
    let env = TestEnv::new();
    let size = 3 << 20;
    let (liar, image) = Liar::with_layers(&env, &[base(&env), layer(&env, "big", &noise(size))]);
    for delay_ms in (0..400).step_by(25) {
        let mut command = env.command(["template", "pull", &image, "--name", "maybe", "--replace"]);
        let mut child = command.env("WARREN_IMAGES__PLAIN_HTTP", liar.host()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        env.warren(["template", "ls"]).ok();
        let left = templates(&env);
        assert!(left.is_empty() || left == ["maybe"], "after {delay_ms} ms: {left:?}");
        if !left.is_empty() {
            let seen = env.run_with(&["--template", "maybe"], ["stat", "-c", "%s", "/srv/big"]).ok();
            assert_eq!(seen.line(), size.to_string(), "after {delay_ms} ms");
        }
    }
    pull(&env, &liar.host(), &[&image, "--name", "maybe", "--replace"]).ok();
    assert!(layers(&env).iter().all(|name| !name.ends_with(".partial")), "{:?}", layers(&env));
}

#[test]
fn two_images_fetch_what_they_share_once() {
    let env = TestEnv::new();
    let (base, shared) = (base(&env), layer(&env, "shared", &noise(4 << 20)));
    let (first, image) = Liar::with_layers(&env, &[base.clone(), shared.clone(), layer(&env, "first", b"1")]);
    pull(&env, &first.host(), &[&image, "--name", "first"]).ok();
    let own = layer(&env, "second", b"2");
    let (second, image) = Liar::with_layers(&env, &[base, shared, own.clone()]);
    pull(&env, &second.host(), &[&image, "--name", "second"]).ok();
    let own = digest(&env, &fs::read(own).unwrap());
    let asked = second.asked();
    assert_eq!(
        asked.iter().filter(|path| path.contains("/blobs/")).count(),
        2,
        "its configuration and its layer: {asked:?}"
    );
    assert!(asked.iter().any(|path| path.ends_with(&own)), "{asked:?}");
}

#[test]
fn a_registry_that_lies_is_refused_by_name() {
    let env = TestEnv::new();
    let layers = [base(&env)];
    let refused = |liar: &Liar, image: &str, says: &str| {
        pull(&env, &liar.host(), &[image, "--name", "lies"]).ended(125).says(says);
        assert_eq!(templates(&env), Vec::<String>::new());
    };
    let (liar, image) = Liar::with_layers(&env, &layers);
    liar.answer("/blobs/", b"something else".to_vec());
    refused(&liar, &image, "bytes instead of");
    let (liar, image) = Liar::with_layers(&env, &layers);
    liar.spoil_layers();
    refused(&liar, &image, "has digest");
    let (liar, image) = Liar::with_layers(&env, &layers);
    refused(&liar, &format!("{}@sha256:{}", image.rsplit_once(':').unwrap().0, "0".repeat(64)), "has digest");
    let (liar, image) = Liar::with_layers(&env, &layers);
    let foreign = json!({"os": "linux", "architecture": "riscv64"});
    let index = json!({"schemaVersion": 2, "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": format!("sha256:{}", "0".repeat(64)), "size": 7, "platform": foreign}]});
    liar.answer("/manifests/", index.to_string().into_bytes());
    refused(&liar, &image, "linux/riscv64");
    let (liar, image) = Liar::with_layers(&env, &layers);
    liar.answer("/manifests/", vec![b' '; 5 << 20]);
    refused(&liar, &image, "longer than");
    // Into this machine's own networks, by a redirect and by the place of tokens.
    let (liar, image) = Liar::with_layers(&env, &layers);
    liar.lead("/blobs/", "302 Found", "Location: http://169.254.169.254/latest/meta-data/");
    refused(&liar, &image, "has no public address");
    let (liar, image) = Liar::with_layers(&env, &layers);
    liar.lead("/manifests/", "401 Unauthorized", "WWW-Authenticate: Bearer realm=\"http://10.0.0.1/token\"");
    refused(&liar, &image, "has no public address");
    let (liar, image) = Liar::with_layers(&env, &layers);
    liar.lead("/manifests/", "302 Found", "Location: /v2/round/manifests/about");
    refused(&liar, &image, "without end");
    let (liar, image) = Liar::with_layers(&env, &layers);
    liar.lead("/manifests/", "429 Too Many Requests", "Retry-After: 1");
    refused(&liar, &image, "registry_unavailable");
}

#[test]
fn tokens_are_made_where_the_registry_says_and_shown_to_it_alone() {
    let env = TestEnv::new();
    let (liar, image) = Liar::with_layers(&env, &[base(&env)]);
    liar.want_token("let-me-in");
    let pull = |words: &[&str]| {
        let mut command = env.command(["template", "pull", &image, "--name", "token", "--replace"]);
        let command = command.args(words).env("WARREN_IMAGES__PLAIN_HTTP", liar.host());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"word").unwrap();
        Output::from(child.wait_with_output().unwrap())
    };
    pull(&[]).ok();
    assert!(liar.shown().iter().all(|header| !header.starts_with("Basic")), "{:?}", liar.shown());
    pull(&["--username", "ada"]).ok();
    assert!(liar.shown().contains(&"Basic YWRhOndvcmQ=".to_owned()), "{:?}", liar.shown());
}

#[test]
fn a_mirror_serves_and_gets_no_credentials() {
    let env = TestEnv::new();
    let (mirror, image) = Liar::with_layers(&env, &[base(&env)]);
    let path = image.split_once('/').unwrap().1;
    let mut command =
        env.command(["template", "pull", &format!("registry.invalid/{path}"), "--name", "mirrored"]);
    command.args(["--username", "ada"]).stdin(Stdio::piped());
    command.env("WARREN_IMAGES__PLAIN_HTTP", mirror.host());
    command.env("WARREN_IMAGES__MIRRORS", format!("{{registry.invalid: ['{}']}}", mirror.host()));
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"word").unwrap();
    Output::from(child.wait_with_output().unwrap()).ok();
    assert_eq!(mirror.shown(), Vec::<String>::new());
}
