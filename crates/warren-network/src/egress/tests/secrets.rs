use super::super::hello::tests as greetings;
use super::*;

#[tokio::test]
async fn where_nobody_can_read_secrets_nothing_that_may_need_one_passes() {
    let (stage, server) = (Stage::new(), servers::http().await);
    let guest = stage.guest(1, r#"{"mode": "public", "secrets": ["key"]}"#);
    let mut web = stage.connect(&guest, server.address).await;
    let answer = exchange(&mut web, b"GET / HTTP/1.1\r\nHost: api.example\r\n\r\n", 12).await;
    assert_eq!(answer, b"HTTP/1.1 502");
    let mut tls = stage.connect(&guest, server.address).await;
    tls.write_all(&greetings::to(b"api.example")).await.unwrap();
    assert!(is_reset(&mut tls).await);
}
