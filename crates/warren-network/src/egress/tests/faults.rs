use super::*;

const OPEN: &str = r#"{"mode": "allow", "allow": ["a.example"]}"#;
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

fn guest_of(stage: &Stage, server: SocketAddr) -> Arc<Guest> {
    let guest = stage.guest(1, OPEN);
    pin(&guest, "a.example", server.ip());
    guest
}

/// Where nobody listens.
fn nowhere() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.1.250:0").unwrap();
    listener.local_addr().unwrap()
}

#[tokio::test]
async fn a_server_that_refuses_is_told_to_those_who_understand() {
    let stage = Stage::new();
    let goal = nowhere();
    let guest = guest_of(&stage, goal);
    let mut web = stage.connect(&guest, goal).await;
    let answer = String::from_utf8(exchange(&mut web, GET, 200).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("a.example"), "{answer}");
    let mut raw = stage.connect(&guest, goal).await;
    raw.write_all(b"\0\x01\x02").await.unwrap();
    assert!(is_reset(&mut raw).await);
    let open = stage.guest(2, r#"{"mode": "allow", "allow": ["127.0.1.0/24"]}"#);
    let mut other = stage.connect(&open, goal).await;
    assert!(exchange(&mut other, GET, 12).await.ends_with(b"502"), "also where nobody would have looked");
    drop((web, other));
    stage.assert_idle(&guest).await;
    stage.assert_idle(&open).await;
    let told = stage.told().await;
    assert!(told.iter().all(|(verdict, ..)| *verdict == NetworkVerdict::Allowed), "no denial: {told:?}");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_given_up_in_time() {
    let stage = Stage::new();
    // A queue of one that is full answers no more.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.1.251:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let goal = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    for _ in 0..8 {
        let socket = TcpSocket::new_v4().unwrap();
        queue.push(tokio::spawn(socket.connect(goal)));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let guest = guest_of(&stage, goal);
    let mut client = stage.connect(&guest, goal).await;
    let answer = String::from_utf8(exchange(&mut client, GET, 100).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 504"), "{answer}");
    queue.iter().for_each(JoinHandle::abort);
    drop(client);
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn a_server_that_hangs_takes_no_place_longer_than_its_client() {
    let stage = Stage::new();
    let server = servers::serve(|stream| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(stream);
    })
    .await;
    let guest = guest_of(&stage, server.address);
    let mut web = stage.connect(&guest, server.address).await;
    web.write_all(GET).await.unwrap();
    let mut raw = stage.connect(&guest, server.address).await;
    raw.write_all(b"\0\x01\x02").await.unwrap();
    stage.assert_proxied(&guest, 2).await;
    server.visited_by(2).await;
    drop(web);
    raw.set_zero_linger().unwrap();
    drop(raw);
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn a_server_that_ends_its_half_still_hears_the_other() {
    let stage = Stage::new();
    let (heard, mut hearing) = tokio::sync::mpsc::unbounded_channel();
    let server = servers::serve(move |mut stream| {
        let heard = heard.clone();
        async move {
            stream.write_all(b"bye").await.unwrap();
            stream.shutdown().await.unwrap();
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.unwrap();
            heard.send(rest).unwrap();
        }
    })
    .await;
    let guest = guest_of(&stage, server.address);
    let mut client = stage.connect(&guest, server.address).await;
    assert_eq!(read_all(&mut client).await, (b"bye".to_vec(), true));
    client.write_all(b"you too").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(hearing.recv().await.unwrap(), b"you too");
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_is_not_taken_for_one_that_ended() {
    let stage = Stage::new();
    let server = servers::serve(|mut stream| async move {
        let mut head = [0; 16];
        drop(stream.read(&mut head).await);
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf").await);
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(stream.set_zero_linger());
    })
    .await;
    let guest = guest_of(&stage, server.address);
    let mut client = stage.connect(&guest, server.address).await;
    client.write_all(GET).await.unwrap();
    let (bytes, _) = read_all(&mut client).await;
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.to_lowercase().contains("content-length: 1000") && text.ends_with("half"), "{text}");
    let raw = servers::serve(|mut stream| async move {
        drop(stream.write_all(b"half").await);
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(stream.set_zero_linger());
    })
    .await;
    pin(&guest, "a.example", raw.address.ip());
    let mut client = stage.connect(&guest, raw.address).await;
    assert_eq!(read_all(&mut client).await, (b"half".to_vec(), false), "a reset stays a reset");
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn a_server_that_talks_nonsense_is_a_bad_gateway() {
    let stage = Stage::new();
    let server = servers::serve(|mut stream| async move {
        let mut head = [0; 16];
        drop(stream.read(&mut head).await);
        drop(stream.write_all(b"what do you mean?\r\n\r\n").await);
    })
    .await;
    let guest = guest_of(&stage, server.address);
    let mut client = stage.connect(&guest, server.address).await;
    assert_eq!(exchange(&mut client, GET, 12).await, b"HTTP/1.1 502");
}

#[tokio::test]
async fn a_server_that_hung_up_between_two_requests_is_dialled_again() {
    let stage = Stage::new();
    let server = servers::serve(|mut stream| async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await);
    })
    .await;
    let guest = guest_of(&stage, server.address);
    let mut client = stage.connect(&guest, server.address).await;
    for number in 1..=3 {
        let answer = exchange(&mut client, GET, 40).await;
        assert!(answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(b"ok"), "{}", answer.escape_ascii());
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!(server.visitors(), number);
    }
}
