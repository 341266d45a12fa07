use super::*;

const LIST: &str = r#"{"mode": "allow", "allow": ["a.example", "b.example"]}"#;

/// One answer: its status, its head and its body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// Reads one answer that says its length, or has none.
async fn answer(stream: &mut TcpStream) -> Answer {
    let mut head = Vec::new();
    let reading = async {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a head"));
        }
        let head = String::from_utf8(head).unwrap();
        let length =
            head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await.expect("a body");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: String::from_utf8(body).unwrap() }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("an answer in time")
}

async fn ask(stream: &mut TcpStream, request: &str) -> Answer {
    stream.write_all(request.as_bytes()).await.unwrap();
    answer(stream).await
}

/// A sandbox under the list, for which both names are the server's.
fn both(stage: &Stage, server: &servers::Server) -> Arc<Guest> {
    let guest = stage.guest(1, LIST);
    pin(&guest, "a.example", server.address.ip());
    pin(&guest, "b.example", server.address.ip());
    guest
}

#[tokio::test]
async fn each_request_on_a_connection_is_judged_by_its_own_host() {
    let (stage, server) = (Stage::new(), servers::http().await);
    let guest = both(&stage, &server);
    let mut client = stage.connect(&guest, server.address).await;
    let first = ask(&mut client, "GET /1 HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    assert_eq!((first.status, first.body.as_str()), (200, "GET /1 for a.example; "));
    let denied = ask(&mut client, "GET /2 HTTP/1.1\r\nHost: evil.example\r\n\r\n").await;
    assert_eq!(denied.status, 403);
    for part in ["evil.example", "not in the allow list", guest.id.as_str(), "warren net allow"] {
        assert!(denied.body.contains(part), "{part}: {}", denied.body);
    }
    let third =
        ask(&mut client, "POST /3 HTTP/1.1\r\nHost: B.example.\r\nContent-Length: 5\r\n\r\nhello").await;
    assert_eq!(third.body, "POST /3 for B.example.; hello");
    assert_eq!(server.visitors(), 2, "a connection for each host, never shared");
    stage.assert_told(NetworkVerdict::Denied, Some("evil.example"), "not in the allow list").await;
    stage.assert_told(NetworkVerdict::Allowed, Some("b.example"), "allow b.example").await;
    drop(client);
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn one_host_keeps_its_connection() {
    let (stage, server) = (Stage::new(), servers::http().await);
    let guest = both(&stage, &server);
    let mut client = stage.connect(&guest, server.address).await;
    for number in 0..10 {
        let answer = ask(&mut client, &format!("GET /{number} HTTP/1.1\r\nHost: a.example\r\n\r\n")).await;
        assert_eq!(answer.body, format!("GET /{number} for a.example; "));
    }
    assert_eq!(server.visitors(), 1);
}

#[tokio::test]
async fn requests_in_a_row_are_answered_in_turn_each_by_its_host() {
    let (stage, server) = (Stage::new(), servers::http().await);
    let guest = both(&stage, &server);
    let mut client = stage.connect(&guest, server.address).await;
    let hosts = ["a.example", "evil.example", "a.example", "169.254.169.254", "b.example"];
    let all: String = hosts.iter().map(|host| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).collect();
    client.write_all(all.as_bytes()).await.unwrap();
    for (host, status) in hosts.iter().zip([200, 403, 200, 403, 200]) {
        let answer = answer(&mut client).await;
        assert_eq!(answer.status, status, "{host}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_request_whose_host_is_in_doubt_goes_nowhere() {
    let (stage, server) = (Stage::new(), servers::http().await);
    let guest = both(&stage, &server);
    for (head, status) in [
        ("GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a.example\r\nhost: a.example\r\n", 400),
        ("GET / HTTP/1.1\r\nAccept: */*\r\n", 400),
        ("GET http://evil.example/ HTTP/1.1\r\nHost: a.example\r\n", 400),
        ("GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n", 403),
        ("GET / HTTP/1.1\r\nHost: u@a.example\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a.example%00.evil\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a.example, evil.example\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a.example evil\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: evil-a.example\r\n", 403),
        ("GET / HTTP/1.1\r\nHost: a.example.evil\r\n", 403),
        ("GET / HTTP/1.1\r\nHost: xn--80ak6aa92e.example\r\n", 403),
        ("GET / HTTP/1.1\r\nHost: 2130706433\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: 0x7f.1\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n", 403),
        ("GET / HTTP/1.1\r\nHost: [::ffff:10.0.0.1]\r\n", 403),
        ("GET / HTTP/1.1\r\nHost: [64:ff9b::a00:1]\r\n", 403),
        ("GET / HTTP/1.1\r\nHost : a.example\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a.example\0\r\n", 400),
        ("GET / HTTP/1.1\r\nX: y\r\n Host: a.example\r\n", 400),
        ("CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n", 403),
        ("GET / HTTP/1.0\r\nAccept: */*\r\n", 403),
        ("BREW / HTTP/1.1\r\nHost: evil.example\r\n", 403),
    ] {
        let mut client = stage.connect(&guest, server.address).await;
        let answer = ask(&mut client, &format!("{head}\r\n")).await;
        assert_eq!(answer.status, status, "{head:?}: {}", answer.body);
    }
    let long = format!("GET / HTTP/1.1\r\nHost: {}a.example\r\n\r\n", "a.".repeat(150));
    assert_eq!(ask(&mut stage.connect(&guest, server.address).await, &long).await.status, 400);
    stage.assert_idle(&guest).await;
    assert!(stage.told().await.iter().all(|(_, host, _)| host.as_ref().is_none_or(|host| host.is_ascii())));
}

#[tokio::test]
async fn a_request_that_could_be_read_in_two_ways_goes_nowhere() {
    let (stage, server) = (Stage::new(), servers::http().await);
    let guest = both(&stage, &server);
    for request in [
        "GET / HTTP/1.1\nHost: a.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\r\n\n",
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ] {
        let mut client = stage.connect(&guest, server.address).await;
        let answer = ask(&mut client, request).await;
        assert_eq!(answer.status, 400, "{request:?}: {}", answer.body);
    }
    assert_eq!(server.visitors(), 0);
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn an_allowed_host_at_a_foreign_address_is_refused() {
    let (stage, real, foreign) = (Stage::new(), servers::http().await, servers::http().await);
    let guest = both(&stage, &real);
    stage.resolves("a.example", &[real.address.ip()]);
    let mut client = stage.connect(&guest, foreign.address).await;
    let answer = ask(&mut client, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    assert_eq!(answer.status, 403);
    assert!(answer.body.contains("not one that this name was answered with"), "{}", answer.body);
    assert_eq!(foreign.visitors(), 0);
}

#[tokio::test]
async fn a_request_to_the_gateway_is_explained_in_the_form_the_client_likes() {
    let stage = Stage::new();
    let guest = stage.guest(1, LIST);
    let mut client = stage.connect(&guest, gateway(80)).await;
    let answer =
        ask(&mut client, "GET / HTTP/1.1\r\nHost: evil.example\r\nAccept: application/json\r\n\r\n").await;
    assert_eq!(answer.status, 403);
    assert!(answer.head.contains("application/problem+json"), "{}", answer.head);
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((&body["host"], &body["port"]), (&"evil.example".into(), &80.into()));
    assert_eq!(body["sandbox"], guest.id.as_str());
}

#[tokio::test]
async fn an_allowed_request_to_the_gateway_goes_where_the_name_is() {
    let (stage, server) = (Stage::new(), servers::http().await);
    let guest = stage.guest(1, LIST);
    stage.resolves("a.example", &["192.168.0.1".parse().unwrap(), server.address.ip()]);
    let mut client = stage.connect(&guest, gateway(server.address.port())).await;
    let answer = ask(&mut client, "GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    assert_eq!(answer.body, "GET /x for a.example; ");
    let missing = ask(&mut client, "GET /x HTTP/1.1\r\nHost: b.example\r\n\r\n").await;
    assert_eq!(missing.status, 502);
    assert!(missing.body.contains("no such name"), "{}", missing.body);
}

#[tokio::test]
async fn what_is_closed_to_all_is_explained() {
    let stage = Stage::new();
    let guest = stage.guest(1, r#""public""#);
    let mut client = stage.connect(&guest, "169.254.169.254:80".parse::<SocketAddr>().unwrap()).await;
    let answer = ask(&mut client, "GET /latest HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n").await;
    assert_eq!(answer.status, 403);
    assert!(answer.body.contains("metadata") && answer.body.contains("operator"), "{}", answer.body);
}

#[tokio::test]
async fn a_websocket_goes_through_and_a_hidden_http2_does_not() {
    let stage = Stage::new();
    let server = servers::serve(|mut stream| async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        if !head.contains("upgrade: websocket") {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain").await);
            return;
        }
        drop(stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst").await);
        let (mut read, mut write) = stream.split();
        drop(tokio::io::copy(&mut read, &mut write).await);
    })
    .await;
    let guest = both(&stage, &server);
    let mut client = stage.connect(&guest, server.address).await;
    let upgrade = "GET /ws HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let switched = ask(&mut client, upgrade).await;
    assert_eq!(switched.status, 101, "{}", switched.head);
    assert!(switched.head.to_lowercase().contains("upgrade: websocket"), "{}", switched.head);
    assert_eq!(exchange(&mut client, b"", 5).await, b"first");
    assert_eq!(exchange(&mut client, b"\0ping\xff", 6).await, b"\0ping\xff");
    assert_eq!(guest.figures.proxied.load(Ordering::Relaxed), 1, "it still takes its place");
    drop(client);
    stage.assert_idle(&guest).await;
    let mut hidden = stage.connect(&guest, server.address).await;
    let h2c = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n\r\n";
    assert_eq!(ask(&mut hidden, h2c).await.body, "plain", "the server is not asked for it");
}

#[tokio::test]
async fn bodies_stream_both_ways() {
    let stage = Stage::new();
    let server = servers::http_by(|request| async move { ::http::Response::new(request.into_body()) }).await;
    let guest = both(&stage, &server);
    let mut client = stage.connect(&guest, server.address).await;
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await
        .unwrap();
    let head = answer(&mut client).await;
    assert_eq!(head.status, 200, "the answer begins before the request ends");
    for piece in ["one", "two"] {
        client.write_all(format!("3\r\n{piece}\r\n").as_bytes()).await.unwrap();
        assert_eq!(exchange(&mut client, b"", 8).await, format!("3\r\n{piece}\r\n").as_bytes());
    }
    client.write_all(b"0\r\n\r\n").await.unwrap();
    assert_eq!(exchange(&mut client, b"", 5).await, b"0\r\n\r\n");
}

#[tokio::test]
async fn a_refused_client_that_still_sends_hears_the_answer() {
    let (stage, server) = (Stage::new(), servers::http().await);
    let guest = both(&stage, &server);
    let mut client = stage.connect(&guest, server.address).await;
    let body = "x".repeat(100_000);
    let request =
        format!("POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!(ask(&mut client, &request).await.status, 403);
}

#[tokio::test]
async fn a_client_that_trickles_its_head_holds_only_its_own_place() {
    let (stage, server) = (Stage::new(), servers::http().await);
    let guest = both(&stage, &server);
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut client = stage.connect(&guest, server.address).await;
        client.write_all(b"GET / HTTP/1.1\r\nHost: a.exa").await.unwrap();
        slow.push(client);
    }
    let mut quick = stage.connect(&guest, server.address).await;
    assert_eq!(ask(&mut quick, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await.status, 200);
    drop((slow, quick));
    stage.assert_idle(&guest).await;
}
