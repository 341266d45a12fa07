use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use super::{Site, create, expect_told};
use crate::support::{Answer, PATIENCE, TestServer, eventually};

#[test]
fn a_request_reaches_the_application_and_its_answer_comes_back() {
    let site = Site::start();
    let answer = site.call("GET", "/a/b?c=d").header("X-Own", "1").send().expect(200);
    assert_eq!(answer.body, b"hello");
    assert_eq!((answer.header("keep-alive"), answer.header("alt-svc")), (None, None));
    let seen = site.application.last();
    assert_eq!(seen.line, "GET /a/b?c=d HTTP/1.1");
    assert_eq!((seen.headers["host"].as_str(), seen.headers["x-own"].as_str()), (site.host().as_str(), "1"));
    assert_eq!(seen.headers["x-forwarded-for"], "127.0.0.1");
    assert_eq!(
        (seen.headers["x-forwarded-proto"].as_str(), &seen.headers["x-forwarded-host"]),
        ("http", &site.host())
    );
    assert!(!seen.headers.contains_key("warren-traffic-token") && !seen.headers.contains_key("connection"));
}

#[test]
fn names_of_headers_pass_as_they_were_written() {
    let site = Site::start();
    // Over a new connection and over one that waits.
    for _ in 0..2 {
        let call = site.call("GET", "/spelled").header("x-lower", "1").header("X-MiXed", "2");
        let answer = String::from_utf8(read_all(call.header("DNT", "3").open())).unwrap();
        for name in ["\r\nx-lower: 1", "\r\nX-MiXed: 2", "\r\nETag: 3", "\r\nDate: "] {
            assert!(answer.contains(name), "{name:?}: {answer}");
        }
        let seen = site.application.last().names;
        for name in ["x-lower", "X-MiXed", "DNT", "Host", "X-Forwarded-For"] {
            assert!(seen.iter().any(|seen| seen == name), "{name}: {seen:?}");
        }
    }
    assert_eq!(site.application.connections(), 1);
}

#[test]
fn bodies_pass_whole_in_both_ways_whatever_their_framing() {
    let site = Site::start();
    let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let answer = site.call("POST", "/echo").body(body.clone()).send().expect(200);
    assert!(answer.body == body);
    let mut stream = site.call("PUT", "/echo").header("Transfer-Encoding", "chunked").open();
    for piece in ["first ", "second"] {
        write!(stream, "{:x}\r\n{piece}\r\n", piece.len()).unwrap();
        sleep(Duration::from_millis(30));
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(whole(stream).body, b"first second");
    let expected = site.call("POST", "/echo").header("Expect", "100-continue").body("x").open();
    let text = String::from_utf8(read_all(expected)).unwrap();
    assert!(text.starts_with("HTTP/1.1 100") && text.ends_with("\r\n\r\nx"), "{text}");
}

#[test]
fn headers_stand_for_the_host_where_there_is_none() {
    let site = Site::start();
    let port = site.port();
    let plain = |path: &str| site.server.stranger("GET", path);
    let mut call = plain("/v1/health").header("Warren-Traffic-Token", port["token"].as_str().unwrap());
    for (name, value) in port["headers"].as_object().unwrap() {
        call = call.header(name, value.as_str().unwrap());
    }
    assert_eq!(call.pass().expect(200).body, b"hello");
    assert_eq!(site.application.last().line, "GET /v1/health HTTP/1.1");
    expect_told(&plain("/").header("Warren-Sandbox-Id", &site.sandbox).pass(), 400, "one of them is missing");
    expect_told(&plain("/").header("Warren-Sandbox-Port", "80").pass(), 400, "one of them is missing");
}

#[test]
fn a_connection_is_used_again_for_the_same_port_only() {
    let site = Site::start();
    for _ in 0..5 {
        site.call("GET", "/").send().expect(200);
    }
    assert_eq!(site.application.connections(), 1);
    for _ in 0..3 {
        site.call("GET", "/once").send().expect(200);
    }
    assert_eq!(site.application.connections(), 3);
    // What closed while it waited costs nobody a request.
    for _ in 0..10 {
        assert_eq!(site.call("GET", "/then-gone").send().expect(200).body, b"kept");
    }
}

#[test]
fn no_connection_outlives_its_sandbox_or_its_life() {
    let site = Site::start();
    let token = site.token();
    let ask = |site: &Site| site.stranger("GET", "/").header("Warren-Traffic-Token", &token).send();
    ask(&site).expect(200);
    let life = format!("/v1/sandboxes/{}", site.sandbox);
    site.server.call("POST", &format!("{life}/stop")).send().expect(200);
    expect_told(&ask(&site), 502, "was not found");
    site.server.call("POST", &format!("{life}/resume")).send().expect(200);
    ask(&site).expect(200);
    assert_eq!(site.application.connections(), 2, "a new life has connections of its own");
    site.server.call("DELETE", &life).send().expect(200);
    expect_told(&ask(&site), 502, "was not found");
    // Another sandbox at the same port, with the same application behind it.
    let other = create(&site.server);
    let host = site.host().replace(&site.sandbox, &other);
    let refused = site.server.visitor("GET", "/", &host).header("Warren-Traffic-Token", &token).pass();
    expect_told(&refused, 403, "token");
    let own = site.server.visitor("GET", "/", &host).key(&site.server.admin).pass().expect(200);
    assert_eq!((own.body.as_slice(), site.application.connections()), (&b"hello"[..], 3));
}

#[test]
fn a_web_socket_or_any_other_protocol_is_carried_until_one_side_ends() {
    let site = Site::start();
    let mut stream = upgrade(&site);
    for word in ["one", "two"] {
        stream.write_all(word.as_bytes()).unwrap();
        let mut back = [0; 3];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, word.as_bytes());
    }
    assert_eq!(site.application.last().headers["upgrade"], "echo");
    drop(stream);
    eventually("the application sees its client go", || site.application.open() == 0);
}

#[test]
fn an_open_connection_ends_with_the_sandbox_the_key_and_the_server() {
    let site = Site::start();
    let mut stream = upgrade(&site);
    site.server.call("DELETE", &format!("/v1/sandboxes/{}", site.sandbox)).send().expect(200);
    assert!(crate::support::until_closed(&mut stream) < PATIENCE);
    let site = Site::start();
    let key = site
        .server
        .call("POST", "/v1/keys")
        .json(&json!({"name": "guest", "scope": "use"}))
        .send()
        .expect(201)
        .json();
    let call = site.stranger("GET", "/upgrade").header("X-API-Key", key["key"].as_str().unwrap());
    let mut stream =
        upgraded(&call.without("Connection").header("Connection", "Upgrade").header("Upgrade", "echo"));
    site.server.call("DELETE", &format!("/v1/keys/{}", key["key_id"].as_str().unwrap())).send().expect(200);
    assert!(crate::support::until_closed(&mut stream) < PATIENCE);
    let mut stream = upgrade(&site);
    site.server.begin_shutdown();
    assert!(crate::support::until_closed(&mut stream) < PATIENCE);
}

#[test]
fn a_client_that_leaves_is_missed_by_the_application() {
    let site = Site::start();
    for path in ["/slow", "/quiet", "/silent"] {
        let stream = site.call("GET", path).open();
        eventually("the request arrives", || {
            let application = &site.application;
            application.open() == 1 && application.requests() > 0 && application.last().line.contains(path)
        });
        if path != "/silent" {
            let mut first = [0; 64];
            assert!((&stream).read(&mut first).unwrap() > 0);
        }
        drop(stream);
        eventually(&format!("{path} ends"), || site.application.open() == 0);
    }
}

#[test]
fn whoever_is_not_there_is_said_so_to_programs_and_people() {
    let site = Site::start();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let closed = |call: crate::support::Call| call.key(&site.server.admin);
    let answer = closed(site.server.visitor("GET", "/", &site.host_of(free))).pass();
    let told = answer.expect(502).json();
    assert_eq!(
        told,
        json!({"sandboxId": site.sandbox, "message": "The sandbox is running but port is not open", "port": free, "code": 502})
    );
    let unknown = site.host().replace(&site.sandbox, "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa");
    let told = site.server.visitor("GET", "/", &unknown).pass().expect(502).json();
    assert_eq!(
        told,
        json!({"sandboxId": "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa", "message": "The sandbox was not found", "code": 502})
    );
    let page =
        closed(site.server.visitor("GET", "/", &site.host_of(free))).header("Accept", "text/html,*/*").pass();
    let text = String::from_utf8(page.clone().expect(502).body).unwrap();
    assert!(text.contains("port is not open") && text.contains(&site.sandbox), "{text}");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let fetched = closed(site.server.visitor("GET", "/", &site.host_of(free)))
        .header("Accept", "text/html")
        .header("Sec-Fetch-Mode", "cors");
    assert_eq!(fetched.pass().header("content-type"), Some("application/json"));
}

#[test]
fn a_paused_sandbox_waits_to_be_told_and_an_idle_one_does_not() {
    let site = Site::start();
    let life = format!("/v1/sandboxes/{}", site.sandbox);
    site.call("GET", "/").send().expect(200);
    site.server.call("POST", &format!("{life}/pause")).send().expect(200);
    expect_told(&site.call("GET", "/").send(), 409, "paused");
    site.server.call("POST", &format!("{life}/resume")).send().expect(200);
    site.call("GET", "/").send().expect(200);
}

#[test]
fn the_application_may_be_told_another_host() {
    let site = Site::start();
    let body = json!({"public": true, "host_header": "localhost:3000"});
    let set = site.server.call("PUT", &site.path("")).json(&body).send().expect(200).json();
    assert_eq!((set["public"].as_bool(), set["host_header"].as_str()), (Some(true), Some("localhost:3000")));
    site.stranger("GET", "/").send().expect(200);
    let seen = site.application.last();
    assert_eq!(
        (seen.headers["host"].as_str(), &seen.headers["x-forwarded-host"]),
        ("localhost:3000", &site.host())
    );
    let wrong = json!({"host_header": "a b\r\nc"});
    site.server.call("PUT", &site.path("")).json(&wrong).send().expect(422);
}

#[test]
fn http_2_is_spoken_to_clients() {
    let site = Site::start();
    site.make_public();
    let (host, address) = (site.host(), site.server.address);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let body = runtime.block_on(async move {
        use http_body_util::BodyExt as _;
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(stream);
        let executor = hyper_util::rt::TokioExecutor::new();
        let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::builder()
            .method("POST")
            .uri(format!("http://{host}/echo"))
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .body(http_body_util::Full::new(bytes::Bytes::from_static(b"over two")))
            .unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
        answer.into_body().collect().await.unwrap().to_bytes()
    });
    assert_eq!(body, "over two");
    let seen = site.application.last();
    assert_eq!((seen.headers["cookie"].as_str(), &seen.headers["host"]), ("a=1; b=2", &site.host()));
}

#[test]
fn a_sandbox_has_so_many_connections_and_no_more() {
    let site = Site::with(|config| config.ports.max_connections = 3);
    let held: Vec<TcpStream> = (0..3).map(|_| upgrade(&site)).collect();
    let refused = site.call("GET", "/").send();
    expect_told(&refused, 503, "as many connections");
    assert_eq!(refused.header("retry-after"), Some("1"));
    drop(held);
    eventually("there is room again", || site.call("GET", "/").send().status == 200);
}

#[test]
fn an_owner_has_so_many_visitors_without_a_key_and_no_more() {
    let site = Site::with(|config| config.ports.max_visitors_per_owner = 2);
    site.make_public();
    let ask = || site.stranger("GET", "/silent").open();
    let held = [ask(), ask()];
    eventually("both are under way", || site.application.requests() == 2);
    expect_told(&site.stranger("GET", "/").pass(), 503, "as many connections");
    site.stranger("GET", "/").key(&site.server.admin).pass().expect(200);
    drop(held);
    eventually("there is room again", || site.stranger("GET", "/").pass().status == 200);
}

#[test]
fn an_application_that_says_nothing_is_not_waited_for_forever() {
    let site = Site::with(|config| config.ports.timeout = Duration::from_secs(3));
    expect_told(&site.call("GET", "/silent").send(), 504, "in time");
    // A body that keeps coming is no silence.
    let mut stream = site.call("POST", "/echo").header("Transfer-Encoding", "chunked").open();
    for _ in 0..6 {
        stream.write_all(b"1\r\nx\r\n").unwrap();
        sleep(Duration::from_millis(700));
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(whole(stream).expect(200).body, b"xxxxxx");
}

fn upgrade(site: &Site) -> TcpStream {
    let call = site.call("GET", "/upgrade").without("Connection");
    upgraded(&call.header("Connection", "keep-alive, Upgrade").header("Upgrade", "echo"))
}

/// Reads the head of an answer to an upgrade.
fn upgraded(call: &crate::support::Call) -> TcpStream {
    let mut stream = call.open();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream
            .read_exact(&mut byte)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&head)));
        head.push(byte[0]);
    }
    let text = String::from_utf8(head).unwrap().to_lowercase();
    assert!(
        text.starts_with("http/1.1 101 ") && text.contains("upgrade: echo") && text.contains("x-own: yes"),
        "{text}"
    );
    stream
}

fn whole(stream: TcpStream) -> Answer {
    Answer::parse(&read_all(stream))
}

fn read_all(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    drop(stream.read_to_end(&mut bytes));
    bytes
}

#[test]
fn the_api_is_still_where_it_was() {
    let server = TestServer::start();
    server.stranger("GET", "/v1/health").send().expect(200);
    let named = server.visitor("GET", "/v1/health", &format!("warren.localhost:{}", server.address.port()));
    named.pass().expect(200);
}
