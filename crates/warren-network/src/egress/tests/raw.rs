use super::*;

#[tokio::test]
async fn an_address_that_is_open_is_passed_on_unread() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, r#"{"mode": "allow", "allow": ["127.0.1.0/24"]}"#);
    let mut client = stage.connect(&guest, server.address).await;
    assert_eq!(exchange(&mut client, b"GET / HTTP/1.1\r\n\r\n", 18).await, b"GET / HTTP/1.1\r\n\r\n");
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut client).await, (Vec::new(), true), "each way ends on its own");
    stage.assert_idle(&guest).await;
    stage.assert_told(NetworkVerdict::Allowed, None, "allow 127.0.1.0/24").await;
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_at_once() {
    let (stage, server) = (Stage::new(), servers::banner(b"SSH-2.0-Server\r\n").await);
    let guest = stage.guest(1, r#"{"mode": "allow", "allow": ["git.example"]}"#);
    pin(&guest, "git.example", server.address.ip());
    let mut fastest = Duration::MAX;
    for _ in 0..10 {
        let before = std::time::Instant::now();
        let mut client = stage.connect(&guest, server.address).await;
        assert_eq!(exchange(&mut client, b"", 16).await, b"SSH-2.0-Server\r\n");
        fastest = fastest.min(before.elapsed());
    }
    assert!(fastest < Duration::from_millis(100), "{fastest:?}");
}

#[tokio::test]
async fn a_client_that_speaks_no_names_goes_by_those_of_its_address() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, r#"{"mode": "allow", "allow": ["db.example"]}"#);
    let mut stranger = stage.connect(&guest, server.address).await;
    stranger.write_all(b"\0\0\0\x08\x04\xd2\x16\x2f").await.unwrap();
    assert!(is_reset(&mut stranger).await, "the address was answered for no name");
    pin(&guest, "db.example", server.address.ip());
    let mut client = stage.connect(&guest, server.address).await;
    assert_eq!(exchange(&mut client, b"\0\0\0\x08\x04\xd2\x16\x2f", 8).await, b"\0\0\0\x08\x04\xd2\x16\x2f");
    assert_eq!(server.visitors(), 1);
    stage.assert_told(NetworkVerdict::Denied, None, "not in the allow list").await;
}

#[tokio::test]
async fn who_says_nothing_is_refused_soon() {
    let (stage, server) = (Stage::new(), servers::banner(b"hello").await);
    let guest = stage.guest(1, r#"{"mode": "allow"}"#);
    let before = std::time::Instant::now();
    assert!(is_reset(&mut stage.connect(&guest, server.address).await).await);
    assert!(before.elapsed() < Duration::from_secs(4), "{:?}", before.elapsed());
    assert_eq!(server.visitors(), 0);
}

#[tokio::test]
async fn what_is_closed_to_all_is_closed_under_every_policy() {
    let stage = Stage::new();
    let all = r#"{"mode": "allow", "allow": ["*", "0.0.0.0/0", "::/0"]}"#;
    for (last, policy) in (1..).zip([all, r#""public""#, r#""learn""#, r#""ask""#]) {
        let guest = stage.guest(last, policy);
        for goal in [
            "10.0.0.1:22",
            "127.0.0.1:22",
            "169.254.169.254:80",
            "10.213.0.9:80",
            "[::ffff:10.0.0.1]:80",
            "[fd00::1]:80",
            "[64:ff9b::a00:1]:80",
        ] {
            let mut client = stage.connect(&guest, goal.parse::<SocketAddr>().unwrap()).await;
            client.write_all(b"\0\x01\x02").await.unwrap();
            assert!(is_reset(&mut client).await, "{policy} {goal}");
        }
        stage.assert_idle(&guest).await;
    }
    stage.assert_told(NetworkVerdict::Denied, None, "closed to every sandbox").await;
}

#[tokio::test]
async fn the_machines_own_addresses_are_closed() {
    let server = servers::serve_at("127.0.1.200:0".parse().unwrap(), |_| async {}).await;
    let stage = Stage::set(Setting { own: Some(server.address.ip()), ..Setting::default() });
    for (last, policy) in (1..).zip([r#""learn""#, r#"{"mode": "allow", "allow": ["127.0.1.200"]}"#]) {
        let guest = stage.guest(last, policy);
        let mut client = stage.connect(&guest, server.address).await;
        client.write_all(b"\0\x01\x02").await.unwrap();
        assert!(is_reset(&mut client).await, "{policy}");
    }
    assert_eq!(server.visitors(), 0);
}

#[tokio::test]
async fn nobody_knows_a_stranger() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, r#""learn""#);
    stage.egress.book.leave(&guest.id);
    assert!(is_reset(&mut stage.connect(&guest, server.address).await).await);
    assert_eq!(server.visitors(), 0);
}

#[tokio::test]
async fn a_stammer_is_not_taken_for_another_language() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, r#"{"mode": "allow", "allow": ["a.example"]}"#);
    pin(&guest, "a.example", server.address.ip());
    let mut client = stage.connect(&guest, server.address).await;
    client.write_all(b"G").await.unwrap();
    let before = std::time::Instant::now();
    let mut bytes = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, client.read_to_end(&mut bytes)).await.expect("in time");
    assert!(ended.is_err() && bytes.is_empty(), "reset, not passed on");
    assert!(before.elapsed() > Duration::from_secs(4));
}

#[tokio::test]
async fn in_learn_mode_everything_open_is_told_by_its_name() {
    let (stage, server, raw) = (Stage::new(), servers::http().await, servers::banner(b"hi").await);
    let guest = stage.guest(1, r#""learn""#);
    let mut client = stage.connect(&guest, server.address).await;
    exchange(&mut client, b"GET / HTTP/1.1\r\nHost: seen.example\r\n\r\n", 10).await;
    exchange(&mut stage.connect(&guest, raw.address).await, b"", 2).await;
    stage.assert_told(NetworkVerdict::Allowed, Some("seen.example"), "mode learn").await;
    stage.assert_told(NetworkVerdict::Allowed, None, "mode learn").await;
}

#[tokio::test]
async fn much_is_passed_on_both_ways_and_nothing_is_lost() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, r#"{"mode": "allow", "allow": ["127.0.1.0/24"]}"#);
    let client = stage.connect(&guest, server.address).await;
    let (mut read, mut write) = client.into_split();
    let sending = tokio::spawn(async move {
        let chunk: Vec<u8> = (0..=250).cycle().take(251 * 300).collect();
        for _ in 0..200 {
            write.write_all(&chunk).await.unwrap();
        }
        write.shutdown().await.unwrap();
    });
    let mut back = Vec::new();
    read.read_to_end(&mut back).await.unwrap();
    sending.await.unwrap();
    assert_eq!(back.len(), 251 * 300 * 200);
    assert!(back.iter().zip((0..=250_u8).cycle()).all(|(one, other)| *one == other));
    stage.assert_idle(&guest).await;
}
