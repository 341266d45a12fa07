use std::time::Instant;

use super::super::hello::tests as greetings;
use super::*;

/// The middle of many measurements.
async fn median<F: Future<Output = ()>>(rounds: usize, mut measured: impl FnMut() -> F) -> Duration {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let before = Instant::now();
        measured().await;
        times.push(before.elapsed());
    }
    times.sort_unstable();
    times[rounds / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_connection_under_names_is_little_slower_than_a_direct_one() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, r#"{"mode": "allow", "allow": ["a.example"], "limits": {"connections": 60000, "new_connections_per_s": 60000}}"#);
    pin(&guest, "a.example", server.address.ip());
    let greeting = greetings::to(b"a.example");
    let direct = median(400, || async {
        let mut client = TcpStream::connect(server.address).await.unwrap();
        exchange(&mut client, &greeting, greeting.len()).await;
    })
    .await;
    let proxied = median(400, || async {
        let mut client = stage.connect(&guest, server.address).await;
        exchange(&mut client, &greeting, greeting.len()).await;
    })
    .await;
    println!("a new connection: direct {direct:?}, by name {proxied:?}");
    assert!(proxied < direct + Duration::from_millis(50), "direct {direct:?}, proxied {proxied:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_passed_on_about_as_fast_as_they_are_copied() {
    const TOTAL: usize = 128 << 20;
    let stage = Stage::new();
    let server = servers::serve(|mut stream| async move {
        let chunk = vec![7; 256 << 10];
        for _ in 0..TOTAL / chunk.len() {
            if stream.write_all(&chunk).await.is_err() {
                return;
            }
        }
    })
    .await;
    let guest = stage.guest(1, r#"{"mode": "allow", "allow": ["127.0.1.0/24"]}"#);
    let mut rates = Vec::new();
    for direct in [true, false] {
        let client = if direct {
            TcpStream::connect(server.address).await.unwrap()
        } else {
            stage.connect(&guest, server.address).await
        };
        let (before, mut client, mut sink) = (Instant::now(), client, vec![0; 256 << 10]);
        let mut total = 0;
        loop {
            match client.read(&mut sink).await.unwrap() {
                0 => break,
                length => total += length,
            }
        }
        assert_eq!(total, TOTAL);
        rates.push(TOTAL as f64 / before.elapsed().as_secs_f64() / 1e6);
    }
    println!("passed on: direct {:.0} MB/s, through the proxy {:.0} MB/s", rates[0], rates[1]);
    assert!(rates[1] > 10.0);
}
