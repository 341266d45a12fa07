use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use warren_e2e::{TestEnv, TestServer, eventually};

use super::{ask, echo, host, key, start, told, web_socket};

/// Ends with the test.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_port_on_the_loopback_is_reached_by_name_and_by_headers() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    start(&server, &id, "one", 8000);
    let named = told(&ask(&server, &id, 8000, "/a?b=c", &key(&server)));
    assert_eq!((&named["name"], &named["line"]), (&json!("one"), &json!("GET /a?b=c HTTP/1.1")));
    assert_eq!(named["headers"]["host"], host(&server, &id, 8000));
    assert_eq!(named["headers"]["x-forwarded-for"], "127.0.0.1");
    assert!(named["headers"].get("x-api-key").is_none());
    let bearer = format!("Bearer {}", server.key());
    let headers =
        [("authorization", bearer.as_str()), ("warren-sandbox-id", &id), ("warren-sandbox-port", "8000")];
    assert_eq!(told(&server.ask_with("GET", "/v1/health", &headers, None))["name"], "one");
    assert_eq!(server.ask_with("GET", "/", &headers[..2], None).status, 400);
    let closed = ask(&server, &id, 9, "/", &key(&server));
    assert_eq!(
        (closed.status, closed.json()["message"].as_str()),
        (502, Some("The sandbox is running but port is not open"))
    );
    server.finish();
}

#[test]
fn who_may_use_a_port_outlives_the_server() {
    let env = TestEnv::new();
    let mut server = TestServer::setup(&env).at_lasting_address().start();
    let id = server.create();
    start(&server, &id, "one", 8000);
    start(&server, &id, "two", 8001);
    assert_eq!(ask(&server, &id, 8000, "/", "").status, 403);
    server.warren(["port", &id, "8000", "--public"]).ok();
    let shown = server.warren(["port", &id, "8001", "--json"]).ok().json();
    let token = format!("warren-traffic-token: {}\r\n", shown["token"].as_str().unwrap());
    let link = server.warren(["port", &id, "8001", "--link", "1h"]).ok().line();
    let place = format!("http://{}", host(&server, &id, 8001));
    let path = link.strip_prefix(&place).unwrap_or_else(|| panic!("{link}"));
    let check = |server: &TestServer<'_>| {
        assert_eq!(told(&ask(server, &id, 8000, "/", ""))["name"], "one");
        assert_eq!(told(&ask(server, &id, 8001, "/", &token))["name"], "two");
        assert_eq!(told(&ask(server, &id, 8001, path, ""))["line"], "GET / HTTP/1.1");
        assert_eq!(ask(server, &id, 8001, "/", "").status, 403);
        assert_eq!(ask(server, &id, 8000, "/", &token).status, 403, "another port's token");
    };
    check(&server);
    server.kill();
    server.start_again();
    check(&server);
    server.warren(["port", &id, "8000", "--private"]).ok();
    assert_eq!(ask(&server, &id, 8000, "/", "").status, 403);
    let keys = fs::metadata(env.data_dir().join("link-keys.json")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&keys.permissions()) & 0o777, 0o600);
    server.finish();
}

#[test]
fn a_web_socket_lasts_until_the_sandbox_ends() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    start(&server, &id, "one", 8000);
    let mut stream = web_socket(&server, &id, 8000, &key(&server));
    echo(&mut stream, "there and back");
    echo(&mut stream, "again");
    server.warren(["rm", &id]).ok();
    assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0, "it is closed");
    server.finish();
}

#[test]
fn a_sandbox_that_fell_asleep_is_woken_by_a_request() {
    let env = TestEnv::new();
    let server = TestServer::setup(&env).set("timeouts.active", "1s").set("timeouts.sweep", "1s").start();
    let id = server.create();
    start(&server, &id, "one", 8000);
    let mut stream = web_socket(&server, &id, 8000, &key(&server));
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(server.status(&id), "ready", "somebody has a connection");
    echo(&mut stream, "still here");
    drop(stream);
    eventually(Duration::from_secs(60), "it falls asleep", || server.status(&id) == "paused");
    assert_eq!(told(&ask(&server, &id, 8000, "/", &key(&server)))["name"], "one");
    server.warren(["pause", &id]).ok();
    assert_eq!(ask(&server, &id, 8000, "/", &key(&server)).status, 409, "who paused it has to resume it");
    server.finish();
}

#[test]
fn a_port_is_forwarded_to_this_machine() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    start(&server, &id, "one", 8000);
    let mut forward =
        Background(server.command(["forward", &id, "0:8000", "0:9"]).stderr(Stdio::piped()).spawn().unwrap());
    let mut said = BufReader::new(forward.0.stderr.take().unwrap()).lines();
    let mut next = || said.next().unwrap().unwrap();
    let address = |line: String| -> SocketAddr { line.split(' ').next().unwrap().parse().unwrap() };
    let (open, closed) = (address(next()), address(next()));
    let ask = || {
        let mut stream = TcpStream::connect(open).unwrap();
        stream.write_all(b"GET /x HTTP/1.1\r\nconnection: close\r\n\r\nrest").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        told(&warren_e2e::read_answer(stream))["line"].clone()
    };
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..20).map(|_| scope.spawn(ask)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|line| line == "GET /x HTTP/1.1"), "{answers:?}");
    assert_eq!(TcpStream::connect(closed).unwrap().read(&mut [0; 1]).unwrap_or(0), 0);
    assert!(next().contains("nobody listens on port 9"));
    drop(forward);
    server.finish();
}

#[test]
fn tls_is_spoken_with_a_local_authority() {
    const CLIENT: &str = "
import ssl, socket, sys
authority, address, name, headers = sys.argv[1:]
host, port = address.rsplit(':', 1)
context = ssl.create_default_context(cafile=authority)
context.set_alpn_protocols(['http/1.1'])
with context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=name) as stream:
    assert stream.selected_alpn_protocol() == 'http/1.1'
    stream.sendall(f'GET / HTTP/1.1\\r\\nhost: {name}\\r\\nconnection: close\\r\\n{headers}\\r\\n'.encode())
    answer = b''
    while piece := stream.recv(65536):
        answer += piece
print(answer.decode())
";
    let env = TestEnv::new();
    let refused = TestServer::setup(&env).set("ports.tls_listen", "127.0.0.1:0").refused();
    assert!(refused.errors().contains("warren tls init"), "{}", refused.errors());
    let made = env.warren(["tls", "init"]).ok();
    assert!(made.errors().contains("update-ca-certificates"));
    let authority = made.line();
    let server = TestServer::setup(&env).set("ports.tls_listen", "127.0.0.1:0").start();
    let id = server.create();
    start(&server, &id, "one", 8000);
    let url = server.warren(["port", &id, "8000"]).ok().line();
    let (name, port) = url.strip_prefix("https://").unwrap().rsplit_once(':').unwrap();
    let address = format!("127.0.0.1:{port}");
    let ask = |name: &str| {
        let words = ["-c", CLIENT, &authority, &address, name, &key(&server)];
        let output = Command::new("python3").args(words).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (done, answer) = ask(name);
    assert!(done && answer.contains("\"x-forwarded-proto\": \"https\""), "{answer}");
    assert!(ask("localhost").1.contains("route_not_found"));
    assert!(!ask("elsewhere.example").0, "it signs for no other name");
    server.finish();
}

#[test]
fn the_address_of_a_chats_service_works_from_this_machine() {
    let env = TestEnv::new();
    let volume = env.path("volume");
    fs::create_dir(&volume).unwrap();
    let server = TestServer::setup(&env).flag("--allow-mount").flag(&volume.display().to_string()).start();
    let body = json!({
        "chat_id": "0b5ac4d6-6a0f-4d0e-9a54-5a3b1de2a001",
        "agent_id": "agent",
        "volume_host_path": volume.display().to_string(),
    });
    let chat = server.ask("POST", "/api/v1/create", Some(&body)).json();
    let id = chat["container_id"].as_str().unwrap();
    start(&server, id, "chat", 8000);
    let ip: IpAddr = chat["endpoint"]["ip"].as_str().unwrap().parse().unwrap();
    let port = u16::try_from(chat["endpoint"]["port"].as_u64().unwrap()).unwrap();
    let mut stream = TcpStream::connect((ip, port)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(told(&warren_e2e::read_answer(stream))["name"], "chat");
    server.finish();
}
