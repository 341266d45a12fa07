use super::*;

const BOTH: &str = r#"{"mode": "allow", "allow": ["a.example", "b.example"]}"#;
const ONLY_B: &str = r#"{"mode": "allow", "allow": ["b.example"]}"#;

#[tokio::test]
async fn what_is_no_longer_allowed_is_cut_and_the_rest_goes_on() {
    let (stage, a, b) =
        (Stage::new(), servers::tls(&["a.example"]).await, servers::tls(&["b.example"]).await);
    let guest = stage.guest(1, BOTH);
    pin(&guest, "a.example", a.address.ip());
    pin(&guest, "b.example", b.address.ip());
    let mut to_a = tls::greet(stage.connect(&guest, a.address).await, "a.example").await.unwrap();
    let mut to_b = tls::greet(stage.connect(&guest, b.address).await, "b.example").await.unwrap();
    set(&guest, ONLY_B);
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, to_a.read_to_end(&mut rest)).await.expect("cut at once");
    assert!(ended.is_err(), "and not as if it had ended well");
    to_b.write_all(b"still here").await.unwrap();
    let mut back = [0; 10];
    to_b.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"still here");
    set(&guest, BOTH);
    assert!(
        tls::greet(stage.connect(&guest, a.address).await, "a.example").await.is_ok(),
        "and opened again"
    );
}

#[tokio::test]
async fn an_answer_that_streams_is_cut() {
    let stage = Stage::new();
    let server = servers::http_by(|_| async {
        let pieces = futures_util::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, std::convert::Infallible>(http_body::Frame::data(bytes::Bytes::from("piece"))), ()))
        });
        ::http::Response::new(http_body_util::StreamBody::new(pieces))
    })
    .await;
    let guest = stage.guest(1, BOTH);
    pin(&guest, "a.example", server.address.ip());
    let mut client = stage.connect(&guest, server.address).await;
    exchange(&mut client, b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", 100).await;
    set(&guest, ONLY_B);
    let (bytes, _) = read_all(&mut client).await;
    assert!(!bytes.ends_with(b"0\r\n\r\n"), "it did not end by itself");
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn a_request_whose_answer_is_waited_for_is_given_up() {
    let stage = Stage::new();
    let server = servers::serve(|stream| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(stream);
    })
    .await;
    let guest = stage.guest(1, BOTH);
    pin(&guest, "a.example", server.address.ip());
    let mut client = stage.connect(&guest, server.address).await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    set(&guest, ONLY_B);
    assert_eq!(exchange(&mut client, b"", 12).await, b"HTTP/1.1 403");
}

#[tokio::test]
async fn a_connection_on_which_nobody_has_spoken_is_cut_too() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, BOTH);
    pin(&guest, "a.example", server.address.ip());
    let mut client = stage.connect(&guest, server.address).await;
    server.visited_by(1).await;
    set(&guest, ONLY_B);
    assert!(is_reset(&mut client).await);
}

#[tokio::test]
async fn a_sandbox_that_leaves_takes_everything_with_it() {
    let (stage, raw, web) = (Stage::new(), servers::echo().await, servers::http().await);
    let guest = stage.guest(1, r#""learn""#);
    let mut one = stage.connect(&guest, raw.address).await;
    exchange(&mut one, b"\0\x01\x02", 3).await;
    set(&guest, r#"{"mode": "public", "deny": ["evil.example"]}"#);
    assert_eq!(exchange(&mut one, b"\0\x01\x02", 3).await, b"\0\x01\x02", "it stays allowed");
    let mut two = stage.connect(&guest, web.address).await;
    exchange(&mut two, b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", 12).await;
    stage.egress.book.leave(&guest.id);
    assert!(is_reset(&mut one).await);
    read_all(&mut two).await;
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn a_websocket_is_cut() {
    let stage = Stage::new();
    let server = servers::serve(|mut stream| async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        drop(
            stream
                .write_all(
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
                )
                .await,
        );
        tokio::time::sleep(Duration::from_secs(60)).await;
    })
    .await;
    let guest = stage.guest(1, BOTH);
    pin(&guest, "a.example", server.address.ip());
    let mut client = stage.connect(&guest, server.address).await;
    exchange(
        &mut client,
        b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        60,
    )
    .await;
    set(&guest, ONLY_B);
    let (_, ended_well) = read_all(&mut client).await;
    assert!(!ended_well);
    stage.assert_idle(&guest).await;
}
