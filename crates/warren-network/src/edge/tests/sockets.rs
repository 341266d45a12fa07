use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::requests::connect_as;
use super::*;

async fn until(stream: &mut (impl tokio::io::AsyncRead + Unpin), end: &str) -> String {
    let mut all = Vec::new();
    let read = async {
        while !all.ends_with(end.as_bytes()) {
            let byte = stream.read_u8().await.unwrap();
            all.push(byte);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), read).await.expect("it arrives");
    String::from_utf8(all).unwrap()
}

#[tokio::test]
async fn a_websocket_gets_the_secret_and_passes_bytes_both_ways() {
    let world = World::new().await;
    let mut stream = connect_as(&world, HOST).await.unwrap();
    let request = "GET /socket HTTP/1.1\r\nHost: api.example\r\nConnection: keep-alive, Upgrade\r\n\
                   Upgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                   Sec-WebSocket-Extensions: permessage-deflate\r\nAuthorization: own\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = until(&mut stream, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let greeting = until(&mut stream, "\n").await;
    assert_eq!(greeting, format!("hello Bearer {}\n", "*".repeat(VALUE.len())));
    let seen = world.origin.last();
    assert_eq!(seen.all("authorization"), [format!("Bearer {VALUE}")]);
    assert_eq!(seen.all("sec-websocket-extensions"), [""; 0]);
    assert_eq!(seen.all("sec-websocket-key"), ["dGhlIHNhbXBsZSBub25jZQ=="]);
    stream.write_all(b"one two").await.unwrap();
    assert_eq!(until(&mut stream, "two").await, "one two");
    // It ends as the secret begins, and must not wait for more.
    stream.write_all(b"number").await.unwrap();
    assert_eq!(until(&mut stream, "r").await, "number");
}

#[tokio::test]
async fn another_upgrade_is_not_passed_on() {
    let world = World::new().await;
    let mut stream = connect_as(&world, HOST).await.unwrap();
    let request = "GET /echo HTTP/1.1\r\nHost: api.example\r\nConnection: Upgrade, HTTP2-Settings, close\r\n\
                   Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = until(&mut stream, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let seen = world.origin.last();
    assert_eq!((seen.all("upgrade").len(), seen.all("http2-settings").len()), (0, 0));
}
