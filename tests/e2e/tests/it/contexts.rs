//! Servers that are named, and servers that speak TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use warren_e2e::{TestEnv, TestServer};

use crate::templates::small_root;

/// `warren` as somebody runs it who names no data directory.
fn plain(env: &TestEnv, words: &[&str]) -> (i32, String, String) {
    let like = env.command([""; 0]);
    let output = Command::new(like.get_program())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("XDG_CONFIG_HOME", env.path("config"))
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("warren can be started");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn done(env: &TestEnv, words: &[&str]) -> String {
    let (code, output, errors) = plain(env, words);
    assert_eq!(code, 0, "{words:?}: {errors}");
    output
}

/// The port at which the server speaks TLS.
fn tls_port(server: &TestServer<'_>, id: &str) -> String {
    let url = server.warren(["port", id, "80"]).ok().line();
    url.rsplit_once(':').expect("the address has a port").1.trim_end_matches('/').to_owned()
}

#[test]
fn an_https_server_is_believed_by_the_authority_that_was_named_and_no_other() {
    let env = TestEnv::new();
    let authority = env.warren(["tls", "init"]).ok().line();
    let server = TestServer::setup(&env).set("ports.tls_listen", "127.0.0.1:0").start();
    let id = server.create();
    let url = format!("https://localhost:{}", tls_port(&server, &id));
    let secure = ["--url", &url, "--key", server.key(), "--ca", &authority];
    let listed = done(&env, &[&secure[..], &["ls", "--json"]].concat());
    assert!(listed.contains(&id), "{listed}");
    let stranger = plain(&env, &["--url", &url, "--key", server.key(), "ls"]);
    assert_eq!(stranger.0, 125);
    assert!(stranger.2.contains("--ca FILE"), "{}", stranger.2);
    let streamed = plain(&env, &["--url", &url, "--key", server.key(), "exec", &id, "--", "true"]);
    assert!(streamed.0 == 125 && streamed.2.contains("--ca FILE"), "{}", streamed.2);
    let other = env.path("other.pem");
    fs::write(&other, "no certificate").unwrap();
    let refused = plain(&env, &["--url", &url, "--key", "k", "--ca", &other.display().to_string(), "ls"]);
    assert!(refused.0 == 125 && refused.2.contains("other.pem"), "{}", refused.2);
    both_ways(&env, &secure, &id);
    server.finish();
}

/// Far more than buffers hold goes out and comes back at the same time.
#[track_caller]
fn both_ways(env: &TestEnv, secure: &[&str], id: &str) {
    let sent = env.path("sent");
    let bytes: Vec<u8> = (0..8_u32 << 20).map(|number| (number % 251) as u8).collect();
    fs::write(&sent, &bytes).expect("the file is written");
    let like = env.command([""; 0]);
    let output = Command::new(like.get_program())
        .env_clear()
        .args(secure)
        .args(["exec", id, "--", "cat"])
        .stdin(fs::File::open(&sent).expect("the file is there"))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == bytes, "{} of {} bytes came back", output.stdout.len(), bytes.len());
}

#[test]
fn a_context_is_used_until_somebody_says_otherwise() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    done(&env, &["context", "add", "lab", server.url(), "--key", server.key()]);
    done(&env, &["context", "add", "gone", "http://127.0.0.1:1", "--key", "k"]);
    let file = env.path("config/warren/contexts.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    done(&env, &["context", "use", "lab"]);
    assert!(done(&env, &["ls", "--json"]).contains(&id));
    assert!(done(&env, &["exec", &id, "--", "echo", "hello"]).contains("hello"));
    let gone = plain(&env, &["--context", "gone", "ls"]);
    assert!(gone.0 == 125 && gone.2.contains("127.0.0.1:1"), "{}", gone.2);
    let told = done(&env, &["context", "ls"]) + &done(&env, &["context", "show"]);
    assert!(told.contains("lab") && told.contains(server.url()), "{told}");
    assert!(!told.contains(server.key()), "a key was shown");
    assert!(!done(&env, &["context", "ls", "--json"]).contains(server.key()));
    let twice = plain(&env, &["context", "add", "lab", "http://127.0.0.1:2", "--key", "k"]);
    assert!(twice.0 == 125 && twice.2.contains("--replace"), "{}", twice.2);
    // Whoever names a data directory means this machine.
    let nobody = env.path("empty");
    let local = plain(&env, &["--data-dir", &nobody.display().to_string(), "context", "show"]);
    assert!(local.1.contains("name  local"), "{}", local.1);
    done(&env, &["context", "rm", "lab", "gone"]);
    assert!(done(&env, &["context", "show"]).contains("local"));
    let unknown = plain(&env, &["context", "use", "lab"]);
    assert!(unknown.0 == 125 && unknown.2.contains("context ls"), "{}", unknown.2);
    server.finish();
}

#[test]
fn templates_are_those_of_the_server_that_was_named() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let (root, elsewhere) = (env.path("root"), env.path("elsewhere"));
    small_root(&root).unwrap();
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/note"), "kept\n").unwrap();
    fs::hard_link(root.join("etc/note"), root.join("etc/same")).unwrap();
    std::os::unix::fs::symlink("note", root.join("etc/link")).unwrap();
    let named = |words: &[&str]| {
        let mut command = env.command_on(&elsewhere, ["--url", server.url(), "--key", server.key()]);
        let output = command.args(words).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, text) = named(&["template", "import", "small", &root.display().to_string()]);
    assert_eq!(code, Some(0), "{text}");
    let again = named(&["template", "import", "small", &root.display().to_string()]);
    assert!(again.0 == Some(125) && again.1.contains("--replace"), "{}", again.1);
    assert!(named(&["template", "ls"]).1.contains("small"));
    assert!(!Path::new(&elsewhere).exists(), "nothing was done on this machine");
    let id = server.warren(["create", "--template", "small"]).ok().line();
    assert_eq!(server.shell(&id, "cat /etc/same /etc/link"), "kept\nkept");
    let busy = named(&["template", "rm", "small"]);
    assert!(busy.0 == Some(125) && busy.1.contains("in_use"), "{}", busy.1);
    server.warren(["rm", &id]).ok();
    let (code, text) = named(&["template", "rm", "small"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(!named(&["template", "ls"]).1.contains("small"));
    server.finish();
}
