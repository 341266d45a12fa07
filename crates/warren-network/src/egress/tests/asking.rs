use super::super::hello::tests as greetings;
use super::*;

fn patient() -> Stage {
    Stage::set(Setting { ask_patience: PATIENCE, ..Setting::default() })
}

#[tokio::test]
async fn a_connection_is_held_until_somebody_says_yes() {
    let (stage, server) = (patient(), servers::tls(&["a.example"]).await);
    let guest = stage.guest(1, r#""ask""#);
    stage.resolves("a.example", &[server.address.ip()]);
    let client = stage.connect(&guest, gateway(server.address.port())).await;
    let greeting = tokio::spawn(tls::greet(client, "a.example"));
    stage.assert_told(NetworkVerdict::Asked, Some("a.example"), "").await;
    assert!(!greeting.is_finished());
    set(&guest, r#"{"mode": "ask", "allow": ["other.example"]}"#);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!greeting.is_finished(), "an answer to another question");
    set(&guest, r#"{"mode": "ask", "allow": ["a.example"]}"#);
    assert!(greeting.await.unwrap().is_ok());
    assert_eq!(server.visitors(), 1);
}

#[tokio::test]
async fn a_no_ends_the_wait_at_once() {
    let (stage, server) = (patient(), servers::echo().await);
    let guest = stage.guest(1, r#""ask""#);
    let mut client = stage.connect(&guest, server.address).await;
    client.write_all(&greetings::to(b"a.example")).await.unwrap();
    stage.assert_told(NetworkVerdict::Asked, Some("a.example"), "").await;
    let before = std::time::Instant::now();
    set(&guest, r#"{"mode": "ask", "deny": ["a.example"]}"#);
    assert_eq!(read_all(&mut client).await.0, refusal::ACCESS_DENIED);
    assert!(before.elapsed() < PATIENCE / 2);
    stage.assert_told(NetworkVerdict::Denied, Some("a.example"), "deny a.example").await;
    assert_eq!(server.visitors(), 0);
}

#[tokio::test]
async fn without_an_answer_it_is_a_no() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, r#""ask""#);
    let mut client = stage.connect(&guest, server.address).await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await.unwrap();
    let head = exchange(&mut client, b"", 12).await;
    assert_eq!(head, b"HTTP/1.1 403");
    stage.assert_told(NetworkVerdict::Denied, Some("a.example"), "nobody allowed it within").await;
    drop(client);
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn a_request_and_a_connection_without_names_are_held_too() {
    let (stage, web, raw) = (patient(), servers::http().await, servers::echo().await);
    let guest = stage.guest(1, r#""ask""#);
    pin(&guest, "a.example", web.address.ip());
    let mut asking = stage.connect(&guest, web.address).await;
    asking.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await.unwrap();
    let mut silent = stage.connect(&guest, raw.address).await;
    silent.write_all(b"\0\x01\x02").await.unwrap();
    stage.assert_told(NetworkVerdict::Asked, Some("a.example"), "").await;
    stage.assert_told(NetworkVerdict::Asked, None, "").await;
    let address = raw.address.ip();
    set(&guest, &format!(r#"{{"mode": "ask", "allow": ["a.example", "{address}"]}}"#));
    assert_eq!(exchange(&mut asking, b"", 12).await, b"HTTP/1.1 200");
    assert_eq!(exchange(&mut silent, b"", 3).await, b"\0\x01\x02");
}

#[tokio::test]
async fn who_does_not_wait_frees_the_place() {
    let (stage, server) =
        (Stage::set(Setting { ask_patience: 10 * PATIENCE, ..Setting::default() }), servers::echo().await);
    let guest = stage.guest(1, r#""ask""#);
    let mut tls = stage.connect(&guest, server.address).await;
    tls.write_all(&greetings::to(b"a.example")).await.unwrap();
    let mut http = stage.connect(&guest, server.address).await;
    http.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await.unwrap();
    stage.assert_told(NetworkVerdict::Asked, Some("a.example"), "").await;
    stage.assert_proxied(&guest, 2).await;
    drop((tls, http));
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn leave_for_a_while_ends_by_itself() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, r#""ask""#);
    let until = crate::book::unix_ms() + 3000;
    let address = server.address.ip();
    set(
        &guest,
        &format!(
            r#"{{"mode": "ask", "grants": [{{"rule": "{address}", "effect": "allow", "until_unix_ms": {until}, "by": "me"}}]}}"#
        ),
    );
    let mut client = stage.connect(&guest, server.address).await;
    assert_eq!(exchange(&mut client, b"hello", 5).await, b"hello");
    let before = std::time::Instant::now();
    assert!(is_reset(&mut client).await, "cut when the time is over");
    assert!(before.elapsed() < PATIENCE / 2);
}

#[tokio::test]
async fn what_speaks_no_names_is_asked_about_by_the_name_it_came_by() {
    let (stage, server) = (patient(), servers::banner(b"SSH-2.0-Server\r\n").await);
    let guest = stage.guest(1, r#""ask""#);
    stage.resolves("git.example", &[server.address.ip()]);
    guest.pins.stand_in(&"git.example".parse().unwrap());
    let mut client = stage.connect(&guest, gateway(server.address.port())).await;
    client.write_all(b"SSH-2.0-Client\r\n").await.unwrap();
    stage.assert_told(NetworkVerdict::Asked, Some("git.example"), "").await;
    set(&guest, r#"{"mode": "ask", "allow": ["git.example"]}"#);
    assert_eq!(exchange(&mut client, b"", 16).await, b"SSH-2.0-Server\r\n");
    guest.pins.stand_in(&"other.example".parse().unwrap());
    let mut client = stage.connect(&guest, gateway(server.address.port())).await;
    client.write_all(b"SSH-2.0-Client\r\n").await.unwrap();
    assert!(is_reset(&mut client).await, "it could be for either of them");
}
