use super::*;

/// Memory of this process that is really there.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn two_thousand_connections_cost_little_and_leave_nothing() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, r#"{"mode": "allow", "allow": ["a.example"], "limits": {"connections": 5000, "new_connections_per_s": 60000}}"#);
    pin(&guest, "a.example", server.address.ip());
    let before = resident_kib();
    let mut clients = Vec::new();
    for _ in 0..2000 {
        let mut client = stage.connect(&guest, server.address).await;
        exchange(&mut client, b"\0\x01\x02", 3).await;
        clients.push(client);
    }
    let each = (resident_kib().saturating_sub(before)) as f64 / 2000.0;
    println!("2000 idle connections: {each:.1} KiB each, the tests' own ends included");
    assert!(each < 40.0, "{each} KiB");
    assert_eq!(guest.figures.proxied.load(Ordering::Relaxed), 2000);
    drop(clients);
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn a_server_that_floods_waits_for_a_client_that_does_not_read() {
    let stage = Stage::new();
    let (sent, mut sending) = tokio::sync::watch::channel(0_usize);
    let server = servers::serve(move |mut stream| {
        let sent = sent.clone();
        async move {
            let chunk = vec![7; 64 << 10];
            while stream.write_all(&chunk).await.is_ok() {
                sent.send_modify(|sent| *sent += chunk.len());
            }
        }
    })
    .await;
    let guest = stage.guest(1, r#"{"mode": "allow", "allow": ["a.example"]}"#);
    pin(&guest, "a.example", server.address.ip());
    let client = stage.connect(&guest, server.address).await;
    let held = loop {
        let before = *sending.borrow_and_update();
        tokio::time::sleep(Duration::from_millis(300)).await;
        if *sending.borrow() == before && before > 0 {
            break before;
        }
    };
    println!("a client that does not read: {} KiB are under way, the kernel's buffers included", held >> 10);
    assert!(held < 64 << 20);
    drop(client);
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn more_connections_than_allowed_are_refused_and_places_come_back() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let limits = r#"{"connections": 10, "new_connections_per_s": 1000}"#;
    let guest =
        stage.guest(1, &format!(r#"{{"mode": "allow", "allow": ["127.0.1.0/24"], "limits": {limits}}}"#));
    let other = stage.guest(2, r#"{"mode": "allow", "allow": ["127.0.1.0/24"]}"#);
    let mut clients = Vec::new();
    for _ in 0..10 {
        let mut client = stage.connect(&guest, server.address).await;
        exchange(&mut client, b"x", 1).await;
        clients.push(client);
    }
    assert!(is_reset(&mut stage.connect(&guest, server.address).await).await);
    exchange(&mut stage.connect(&other, server.address).await, b"x", 1).await;
    stage.assert_told(NetworkVerdict::Denied, None, "too many connections").await;
    clients.clear();
    stage.assert_idle(&guest).await;
    exchange(&mut stage.connect(&guest, server.address).await, b"x", 1).await;
}

#[tokio::test]
async fn connections_come_no_faster_than_allowed() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let limits = r#"{"connections": 1000, "new_connections_per_s": 20}"#;
    let guest =
        stage.guest(1, &format!(r#"{{"mode": "allow", "allow": ["127.0.1.0/24"], "limits": {limits}}}"#));
    let began = std::time::Instant::now();
    let mut refused = 0;
    for _ in 0..60 {
        let mut client = stage.connect(&guest, server.address).await;
        drop(client.write_all(b"x").await);
        refused += usize::from(client.read_u8().await.is_err());
    }
    let allowed = 20.0 + 20.0 * began.elapsed().as_secs_f64() + 1.0;
    assert!(refused <= 40 && refused as f64 >= 60.0 - allowed, "{refused}, and {allowed} were allowed");
    tokio::time::sleep(Duration::from_millis(300)).await;
    exchange(&mut stage.connect(&guest, server.address).await, b"x", 1).await;
    let denials = || -> Vec<u32> {
        let heard = stage.heard.0.lock();
        let denied = heard.iter().filter(|entry| entry.verdict == NetworkVerdict::Denied);
        denied.map(|entry| entry.count).collect()
    };
    let counting = async {
        while denials().iter().sum::<u32>() as usize != refused {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counting).await.expect("every one is counted");
    let (entries, most) = (denials().len(), 4 + began.elapsed().as_secs());
    assert!(entries as u64 <= most, "but not told one by one: {entries}");
}
