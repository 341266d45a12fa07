//! Real programs as clients: what they see, and what the server got.

use std::process::{Command, Output};

use super::*;

/// Runs a program while the world goes on.
async fn run(mut command: Command) -> Output {
    command.env_remove("https_proxy").env_remove("HTTPS_PROXY").env_remove("all_proxy");
    tokio::task::spawn_blocking(move || command.output().expect("the program is installed")).await.unwrap()
}

async fn curl(world: &World, arguments: &[&str], path: &str) -> String {
    let port = world.address.port();
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--include", "--max-time", "20", "--noproxy", "*"]);
    command.arg("--cacert").arg(world.trusted());
    command.args(["--resolve", &format!("{HOST}:{port}:127.0.0.1")]);
    command.args(arguments).arg(format!("https://{HOST}:{port}{path}"));
    let output = run(command).await;
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(!text.contains(VALUE), "the client sees the secret: {text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_gets_the_secret_sent_and_never_sees_it() {
    let world = World::new().await;
    for version in ["--http1.1", "--http2"] {
        for path in ["/echo", "/error", "/redirect"] {
            let own = "Authorization: Bearer own-credential";
            let lower = "authorization: Basic bWluZTptaW5l";
            let text = curl(&world, &[version, "-H", own, "-H", lower, "-H", "X-Api-Key: own"], path).await;
            let seen = world.origin.last();
            assert_eq!(seen.all("authorization"), [format!("Bearer {VALUE}")], "{version} {path}");
            assert_eq!(seen.all("x-api-key"), [""; 0]);
            let stars = "*".repeat(VALUE.len());
            assert!(text.contains(&format!("x-echo: Bearer {stars}")), "{text}");
            assert!(text.contains(&format!("authorization: Bearer {stars}")), "{text}");
            assert!(!text.to_lowercase().contains("alt-svc"), "{text}");
        }
    }
    let versions: Vec<_> = world.origin.seen().iter().map(|seen| seen.version).collect();
    assert_eq!(versions, [[http::Version::HTTP_11; 3], [http::Version::HTTP_2; 3]].concat());
    assert_eq!(world.origin.seen().len(), 6, "redirects are the client's to follow");
    let text = curl(&world, &["--http1.1"], "/redirect").await;
    assert!(text.contains("302") && text.contains("https://elsewhere.example/"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_go_through_whole_both_ways() {
    let world = World::new().await;
    let file = world.data.path().join("upload");
    std::fs::write(&file, vec![b'u'; 3 << 20]).unwrap();
    let upload = format!("@{}", file.display());
    for version in ["--http1.1", "--http2"] {
        for chunked in [&[][..], &["-H", "Transfer-Encoding: chunked"][..]] {
            let arguments = [&[version, "--data-binary", &upload], chunked].concat();
            curl(&world, &arguments, "/echo").await;
            assert_eq!(world.origin.last().body.len(), 3 << 20, "{version} {chunked:?}");
        }
        let text = curl(&world, &[version], "/large").await;
        assert_eq!(text.matches("xxxxxxxx").count(), 2 << 20, "{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_host_is_refused_over_http_2_too() {
    let world = World::new().await;
    for version in ["--http1.1", "--http2"] {
        let text = curl(&world, &[version, "-H", "Host: evil.example"], "/echo").await;
        assert!(text.contains(" 403 ") && text.contains("another host"), "{text}");
    }
    assert_eq!(world.origin.seen().len(), 0);
    assert_eq!(world.refused(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_as_they_are_sent() {
    let world = World::new().await;
    let text = curl(&world, &["--http1.1", "--max-time", "1", "--no-buffer"], "/events").await;
    assert!(text.contains("data: 0") && text.contains("data: 2"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn python_believes_the_certificate_and_keeps_the_connection() {
    let world = World::with(Injection::Placeholder { placeholder: "WARREN_TOKEN_x1".to_owned() }).await;
    let script = r#"
import base64, http.client, socket, ssl, sys
port, trusted = int(sys.argv[1]), sys.argv[2]
context = ssl.create_default_context(cafile=trusted)
raw = socket.create_connection(("127.0.0.1", port))
connection = http.client.HTTPSConnection("api.example", port, context=context)
connection.sock = context.wrap_socket(raw, server_hostname="api.example")
basic = base64.b64encode(b"me:WARREN_TOKEN_x1").decode()
for headers in [{"X-Token": "a WARREN_TOKEN_x1"}, {"Authorization": "Basic " + basic}, {"Authorization": "Bearer own"}]:
    connection.request("GET", "/echo?q=WARREN_TOKEN_x1", headers=headers)
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
"#;
    let mut command = Command::new("python3");
    command.arg("-c").arg(script).arg(world.address.port().to_string()).arg(world.trusted());
    let output = run(command).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.matches("200 ").count(), 3, "{text}");
    assert!(!text.contains(VALUE), "{text}");
    let seen = world.origin.seen();
    assert_eq!(seen[0].all("x-token"), [format!("a {VALUE}")]);
    let basic = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, format!("me:{VALUE}"));
    assert_eq!(seen[1].all("authorization"), [format!("Basic {basic}")]);
    assert_eq!(seen[2].all("authorization"), [""; 0], "a credential of its own is dropped");
    assert!(seen.iter().all(|seen| seen.line == "GET /echo?q=WARREN_TOKEN_x1"), "only headers are changed");
}
