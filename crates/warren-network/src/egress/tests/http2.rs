use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;

type Sender = SendRequest<Empty<bytes::Bytes>>;

async fn greet(stream: TcpStream) -> Sender {
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    sender
}

async fn get(sender: &mut Sender, uri: &str, host: Option<&str>) -> (u16, String) {
    let mut request = ::http::Request::builder().uri(uri).version(::http::Version::HTTP_2);
    if let Some(host) = host {
        request = request.header("host", host);
    }
    let response = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn every_stream_is_judged_by_its_own_authority() {
    let (stage, server) = (Stage::new(), servers::http().await);
    let guest = stage.guest(1, r#"{"mode": "allow", "allow": ["a.example", "b.example"]}"#);
    for name in ["a.example", "b.example", "evil.example"] {
        pin(&guest, name, server.address.ip());
    }
    let mut sender = greet(stage.connect(&guest, server.address).await).await;
    for number in 0..3 {
        let answer = get(&mut sender, &format!("http://a.example/{number}"), None).await;
        assert_eq!(answer, (200, format!("GET /{number} for a.example; ")));
    }
    assert_eq!(get(&mut sender, "http://b.example/", None).await.0, 200);
    let (status, body) = get(&mut sender, "http://evil.example/", None).await;
    assert_eq!(status, 403);
    assert!(body.contains("evil.example") && body.contains("warren net allow"), "{body}");
    assert_eq!(get(&mut sender, "http://a.example/", Some("evil.example")).await.0, 400, "two hosts");
    assert_eq!(get(&mut sender, "http://a.example/", Some("a.example")).await.0, 200);
    assert_eq!(server.visitors(), 2, "a connection for each host");
    drop(sender);
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn streams_run_side_by_side() {
    let stage = Stage::new();
    let server = servers::http_by(|_| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        ::http::Response::new(http_body_util::Full::<bytes::Bytes>::from("late"))
    })
    .await;
    let guest = stage.guest(1, r#"{"mode": "allow", "allow": ["a.example"]}"#);
    pin(&guest, "a.example", server.address.ip());
    let sender = greet(stage.connect(&guest, server.address).await).await;
    let before = std::time::Instant::now();
    let asking = (0..20).map(|_| {
        let mut sender = sender.clone();
        tokio::spawn(async move { get(&mut sender, "http://a.example/", None).await })
    });
    for answer in futures_util::future::join_all(asking).await {
        assert_eq!(answer.unwrap(), (200, "late".to_owned()));
    }
    assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
}

#[tokio::test]
async fn a_server_that_sends_its_settings_first_is_no_reason_to_look_away() {
    let (stage, server) = (Stage::new(), servers::banner(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await);
    let guest = stage.guest(1, r#"{"mode": "allow", "allow": ["a.example"]}"#);
    pin(&guest, "a.example", server.address.ip());
    let client = stage.connect(&guest, server.address).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut sender = greet(client).await;
    assert_eq!(get(&mut sender, "http://evil.example/", None).await.0, 403);
}
