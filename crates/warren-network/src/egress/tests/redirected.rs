//! With the kernel in front: what a program in a sandbox sees.

use std::io::Write as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;

use warren_core::Networks;

use super::*;
use crate::claims::DomainKind;
use crate::host::{HostNetwork, NetworkOptions};
use crate::world::World;

fn options(data: &std::path::Path) -> NetworkOptions {
    NetworkOptions {
        data_dir: data.to_owned(),
        kind: DomainKind::Serve,
        subnet: "10.213.0.0/16".parse().unwrap(),
        dns: vec!["192.0.2.1:53".parse().unwrap()],
        exceptions: Vec::new(),
        ask_patience: Duration::from_secs(1),
        prepared: 1,
        extra_ca: None,
        secrets: None,
    }
}

/// The answer that a program in a sandbox gets from a server over HTTP.
fn ask(sandbox: &OwnedFd, address: &str, host: &str) -> String {
    let (ip, port) = address.rsplit_once(':').unwrap();
    let request = format!(r"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let script = format!(
        "exec 3<>/dev/tcp/{ip}/{port}; printf '{request}' >&3; read -t 60 -d '' -u 3 answer; echo \"$answer\""
    );
    let network = format!("--net=/proc/{}/fd/{}", std::process::id(), sandbox.as_raw_fd());
    let output = Command::new("nsenter").args([&network, "bash", "-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

impl Heard {
    fn wait_for(&self, is_meant: impl Fn(&NetworkEntry) -> bool) -> NetworkEntry {
        let patience = std::time::Instant::now() + PATIENCE;
        loop {
            let heard = self.0.lock().clone();
            if let Some(entry) = heard.iter().find(|entry| is_meant(entry)) {
                return entry.clone();
            }
            assert!(std::time::Instant::now() < patience, "{heard:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn web_server(listener: std::net::TcpListener) {
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut head = [0; 512];
            drop(std::io::Read::read(&mut stream, &mut head));
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"));
        }
    });
}

#[test]
fn a_program_is_told_why_and_is_told_of() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    web_server(world.on_internet(|| std::net::TcpListener::bind("203.0.113.9:8080").unwrap()));
    world.on_host(|| {
        let network = HostNetwork::open(options(data.path())).unwrap();
        let heard = Arc::new(Heard::default());
        network.observe(Arc::clone(&heard) as Arc<dyn NetworkObserver>);
        let id = SandboxId::from_random([3; 16]);
        let closed = policy(r#"{"mode": "allow"}"#);
        let sandbox = network.attach(&id, &Owner::first(), &closed).unwrap().namespace.unwrap();
        let denied = ask(&sandbox, "203.0.113.9:8080", "shop.example");
        assert!(denied.starts_with("HTTP/1.1 403") && denied.contains("shop.example"), "{denied}");
        assert!(denied.contains(&format!("warren net allow {id} shop.example")), "{denied}");
        let metadata = ask(&sandbox, "169.254.169.254:80", "169.254.169.254");
        assert!(metadata.starts_with("HTTP/1.1 403") && metadata.contains("metadata"), "{metadata}");
        let gateway = ask(&sandbox, "169.254.77.1:80", "shop.example");
        assert!(gateway.starts_with("HTTP/1.1 403"), "{gateway}");
        network.set(&id, &[policy(r#"{"mode": "allow", "allow": ["203.0.113.9"]}"#)]).unwrap();
        let answer = ask(&sandbox, "203.0.113.9:8080", "shop.example");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.trim().ends_with("hello"), "{answer}");
        let first = heard.wait_for(|entry| entry.host.as_deref() == Some("shop.example"));
        assert_eq!((first.verdict, first.port), (NetworkVerdict::Denied, 8080));
        heard.wait_for(|entry| entry.verdict == NetworkVerdict::Allowed);
        network.set(&id, &[closed]).unwrap();
        // A program that has gone before it is looked for has no name: a busy machine may be too
        // slow for some.
        let named = (0..20).any(|number| {
            let host = format!("shop-{number}.example");
            ask(&sandbox, "203.0.113.9:8080", &host);
            let entry = heard.wait_for(|entry| entry.host.as_deref() == Some(&host));
            entry.process.as_deref() == Some("bash")
        });
        assert!(named, "{:?}", heard.0.lock());
        network.detach(&id).unwrap();
    });
}
