//! Ports of sandboxes as E2B's clients use them.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::ports::application::Application;
use crate::support::{Answer, Call, TestServer};

/// A server with a sandbox that was made through E2B, and an application that listens there.
struct Site {
    server: TestServer,
    id: String,
    made: Value,
    application: Application,
}

impl Site {
    fn with(body: &Value) -> Self {
        let server = TestServer::start();
        server.isolation.share_network();
        let made = make(&server, body);
        let id = made["sandboxID"].as_str().unwrap().to_owned();
        Self { server, id, made, application: Application::start() }
    }

    /// A request to the application's port of the sandbox.
    fn call(&self, method: &str, path: &str) -> Call {
        self.call_port(method, path, self.application.port)
    }

    fn call_port(&self, method: &str, path: &str, port: u16) -> Call {
        let call = self.server.stranger(method, path);
        call.header("E2b-Sandbox-Id", &self.id).header("E2b-Sandbox-Port", &port.to_string())
    }

    /// A request to the control plane.
    fn ask(&self, method: &str, path: &str) -> Call {
        ask(&self.server, method, path)
    }

    fn pause(&self, body: &Value) {
        self.ask("POST", &format!("/e2b/sandboxes/{}/pause", self.id)).json(body).pass().expect(204);
    }

    fn state(&self) -> String {
        let info = self.ask("GET", &format!("/e2b/sandboxes/{}", self.id)).pass().expect(200).json();
        info["state"].as_str().unwrap().to_owned()
    }

    fn not_found(&self) -> Value {
        json!({"sandboxId": self.id, "message": "The sandbox was not found", "code": 502})
    }
}

fn ask(server: &TestServer, method: &str, path: &str) -> Call {
    server.stranger(method, path).header("X-API-KEY", &server.admin)
}

fn make(server: &TestServer, body: &Value) -> Value {
    let mut whole = json!({"templateID": "base", "timeout": 600});
    whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    ask(server, "POST", "/e2b/v2/sandboxes").json(&whole).pass().expect(201).json()
}

/// Insists on a refusal in the words that clients know.
fn expect_refused(answer: &Answer, site: &Site, status: u16) {
    assert_eq!(answer.status, status, "{}", String::from_utf8_lossy(&answer.body));
    let told = answer.json();
    assert_eq!((&told["sandboxId"], &told["code"]), (&json!(site.id), &json!(status)));
    assert!(told["message"].is_string(), "{told}");
}

#[test]
fn every_port_is_open_to_who_knows_the_id_unless_somebody_says_otherwise() {
    let site = Site::with(&json!({}));
    assert_eq!(site.made["trafficAccessToken"], Value::Null);
    assert_eq!(site.call("GET", "/").pass().expect(200).body, b"hello");
    let seen = site.application.last().headers;
    assert!(!seen.keys().any(|name| name.starts_with("e2b-")), "{seen:?}");
    let host = |id: &str| format!("{}-{id}.localhost:{}", site.application.port, site.server.address.port());
    for id in [site.id.clone(), format!("{}-warren", site.id)] {
        assert_eq!(site.server.visitor("GET", "/", &host(&id)).pass().expect(200).body, b"hello");
    }
    // A sandbox that was made in another way is as private as it was.
    let made = site.server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    let other = site.server.visitor("GET", "/", &host(made["sandbox_id"].as_str().unwrap())).pass();
    assert_eq!((other.status, other.json()["code"].as_u64()), (403, Some(403)));
}

#[test]
fn a_private_sandbox_asks_for_its_token() {
    let site = Site::with(&json!({"network": {"allowPublicTraffic": false}}));
    let token = site.made["trafficAccessToken"].as_str().unwrap().to_owned();
    expect_refused(&site.call("GET", "/").pass(), &site, 403);
    let with = |token: &str| site.call("GET", "/").header("E2B-Traffic-Access-Token", token).pass();
    for wrong in ["", "wrong", &token[1..], site.made["envdAccessToken"].as_str().unwrap()] {
        expect_refused(&with(wrong), &site, 403);
    }
    let other = make(&site.server, &json!({"network": {"allowPublicTraffic": false}}));
    expect_refused(&with(other["trafficAccessToken"].as_str().unwrap()), &site, 403);
    assert_eq!(site.application.requests(), 0);
    with(&token).expect(200);
    assert!(!site.application.last().headers.contains_key("e2b-traffic-access-token"));
    // It opens every port.
    let closed = free_port();
    let answer = site.call_port("GET", "/", closed).header("E2B-Traffic-Access-Token", &token).pass();
    let message = "The sandbox is running but port is not open";
    let told = json!({"sandboxId": site.id, "message": message, "port": closed, "code": 502});
    assert_eq!(answer.expect(502).json(), told);
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

#[test]
fn an_application_is_told_the_host_that_it_expects() {
    let site = Site::with(&json!({"network": {"maskRequestHost": "localhost:${PORT}"}}));
    site.call("GET", "/").pass().expect(200);
    assert_eq!(site.application.last().headers["host"], format!("localhost:{}", site.application.port));
}

#[test]
fn tls_is_spoken_to_ports_that_speak_it() {
    let port = serve_tls();
    let site = Site::with(&json!({"network": {"httpsPorts": [port]}}));
    assert_eq!(site.call_port("GET", "/", port).pass().expect(200).body, b"over TLS");
    // Where nobody said so, it is not.
    let plain = Site::with(&json!({}));
    expect_refused(&plain.call_port("GET", "/", port).pass(), &plain, 502);
}

/// An application with a certificate that nobody knows.
fn serve_tls() -> u16 {
    let own = rcgen::generate_simple_self_signed(["nobody.example".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(vec![own.cert.der().clone()], key).unwrap());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    // It ends with the test's process.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(session, stream);
            // Whoever does not speak TLS is sent away.
            if stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 8\r\n\r\nover TLS";
                drop(stream.write_all(answer));
            }
        }
    });
    port
}

#[test]
fn a_paused_sandbox_is_as_if_it_were_not_there() {
    let site = Site::with(&json!({}));
    site.pause(&json!({}));
    let answer = site.call("GET", "/").pass();
    assert_eq!(answer.header("should-retry"), Some("false"));
    assert_eq!(answer.expect(502).json(), site.not_found());
    assert_eq!((site.state().as_str(), site.application.requests()), ("paused", 0));
    let page = site.call("GET", "/").header("Accept", "text/html").pass();
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
}

#[test]
fn traffic_wakes_a_sandbox_that_wakes_for_it() {
    let wakes = json!({"autoPause": true, "autoResume": {"enabled": true}, "timeout": 10});
    let site = Site::with(&wakes);
    for _ in 0..3 {
        site.pause(&json!({}));
        assert_eq!(site.state(), "paused");
        assert_eq!(
            site.call("POST", "/echo").body("the same request").pass().expect(200).body,
            b"the same request"
        );
        assert_eq!(site.state(), "running");
    }
    // It has at least five minutes then.
    site.server.clock.advance_s(200);
    site.call("GET", "/").pass().expect(200);
}

#[test]
fn a_port_that_opens_a_moment_after_the_wake_is_waited_for() {
    let site = Site::with(&json!({"autoPause": true, "autoResume": {"enabled": true}}));
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let closed = json!({
        "sandboxId": site.id, "message": "The sandbox is running but port is not open", "port": port, "code": 502,
    });
    let began = Instant::now();
    assert_eq!(site.call_port("GET", "/", port).pass().expect(502).json(), closed);
    assert!(began.elapsed() < Duration::from_secs(5), "nobody waits in one that was awake");
    site.pause(&json!({}));
    thread::scope(|scope| {
        scope.spawn(|| {
            while site.state() == "paused" {
                thread::sleep(Duration::from_millis(20));
            }
            // The visitor has found it closed by then.
            thread::sleep(Duration::from_millis(700));
            let (mut stream, _) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap().accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0, "a request came");
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate").unwrap();
        });
        assert_eq!(site.call_port("GET", "/", port).pass().expect(200).body, b"late");
    });
}

#[test]
fn names_that_lead_nowhere_are_answered_with_a_message() {
    let site = Site::with(&json!({}));
    let visit = |host: &str| site.server.visitor("GET", "/nothing", host).pass();
    let told = visit("8000-i0123456789abcdefghij.localhost").expect(502).json();
    let gone =
        json!({"sandboxId": "i0123456789abcdefghij", "message": "The sandbox was not found", "code": 502});
    assert_eq!(told, gone);
    let elsewhere = visit(&format!("8000-{}.elsewhere.example", site.id)).expect(400).json();
    assert_eq!((elsewhere["code"].as_u64(), elsewhere["message"].is_string()), (Some(400), true));
    let unknown = visit("api.elsewhere.example").expect(404).json();
    assert_eq!((&unknown["message"], &unknown["status"]), (&unknown["detail"], &json!(404)));
}

#[test]
fn many_who_come_at_once_are_all_served() {
    let site = Site::with(&json!({"autoPause": true, "autoResume": {"enabled": true}}));
    site.pause(&json!({}));
    thread::scope(|scope| {
        let calls: Vec<_> = (0..8).map(|_| scope.spawn(|| site.call("GET", "/").pass().status)).collect();
        let statuses: Vec<u16> = calls.into_iter().map(|call| call.join().unwrap()).collect();
        assert_eq!(statuses, [200; 8]);
    });
}

#[test]
fn a_private_sandbox_does_not_wake_for_strangers() {
    let network = json!({"allowPublicTraffic": false});
    let site = Site::with(&json!({"autoPause": true, "autoResume": {"enabled": true}, "network": network}));
    let token = site.made["trafficAccessToken"].as_str().unwrap().to_owned();
    site.pause(&json!({}));
    expect_refused(&site.call("GET", "/").pass(), &site, 403);
    expect_refused(&site.call("GET", "/").header("E2B-Traffic-Access-Token", "wrong").pass(), &site, 403);
    assert_eq!(site.state(), "paused");
    site.call("GET", "/").header("E2B-Traffic-Access-Token", &token).pass().expect(200);
    assert_eq!(site.state(), "running");
}

#[test]
fn what_has_no_memory_does_not_wake() {
    let site = Site::with(&json!({"autoPause": true, "autoResume": {"enabled": true}}));
    site.pause(&json!({"memory": false}));
    assert_eq!(site.call("GET", "/").pass().expect(502).json(), site.not_found());
    assert_eq!(site.state(), "paused");
}

#[test]
fn a_killed_sandbox_is_not_found_and_one_header_is_not_enough() {
    let site = Site::with(&json!({"autoPause": true, "autoResume": {"enabled": true}}));
    site.call("GET", "/").pass().expect(200);
    site.ask("DELETE", &format!("/e2b/sandboxes/{}", site.id)).pass().expect(204);
    assert_eq!(site.call("GET", "/").pass().expect(502).json(), site.not_found());
    site.server.stranger("GET", "/").header("E2b-Sandbox-Id", &site.id).pass().expect(400);
}
