use warren_core::network::{Grant, GrantEffect, NetworkLimits};

use super::*;
use crate::book::unix_ms;

#[test]
fn public_reaches_the_internet_and_nothing_nearer() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    let greeted = greeter(world.on_internet(|| TcpListener::bind("192.0.2.1:8080").unwrap()));
    let echoed = echo(world.on_internet(|| UdpSocket::bind("192.0.2.2:7").unwrap()));
    let near = greeter(world.on_host(|| TcpListener::bind("0.0.0.0:9000").unwrap()));
    world.on_host(|| {
        let network = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap();
        let diary = Arc::new(Diary::default());
        network.observe(Arc::clone(&diary) as Arc<dyn NetworkObserver>);
        let one = network.attach(&id(1), &owner(), &NetworkPolicy::public()).unwrap();
        let two = network.attach(&id(2), &owner(), &NetworkPolicy::public()).unwrap();
        let (sandbox, own, other) = (one.namespace.unwrap(), one.addresses[0], two.addresses[0]);
        let _listening =
            greeter(inside(&two.namespace.unwrap(), || TcpListener::bind("0.0.0.0:80").unwrap()));
        inside(&sandbox, || {
            assert_eq!(greeting("192.0.2.1:8080").as_deref(), Some(crate::world::HOST), "seen as the host");
            assert!(echoes("192.0.2.2:7"));
            assert!(crate::world::reaches(INTERNET[0]));
            for near in ["198.51.100.2:9000", "169.254.77.1:9000", "127.0.0.1:9000"] {
                let said = greeting(near);
                assert!(said.as_ref().is_none_or(|said| said.parse::<IpAddr>().is_err()), "{near}: {said:?}");
            }
            let said = greeting(&format!("{other}:80"));
            assert!(said.as_ref().is_none_or(|said| said.parse::<IpAddr>().is_err()), "{said:?}");
            assert!(!crate::world::pings("198.51.100.2") && !crate::world::pings(&other.to_string()));
            assert!(!crate::world::pings("198.18.0.1"));
        });
        assert_eq!(near.load(Ordering::Relaxed), 0, "the host's own port");
        // Its own address, and no other.
        let before = echoed.load(Ordering::Relaxed);
        inside(&sandbox, || {
            crate::world::ip("address add 10.213.99.99/32 dev eth0").unwrap();
            assert!(!echoes_from(Ipv4Addr::new(10, 213, 99, 99), "192.0.2.2:7"));
            let IpAddr::V4(own) = own else { panic!("IPv4 comes first") };
            assert!(echoes_from(own, "192.0.2.2:7"));
            crate::world::ip("link set eth0 address 02:00:00:00:00:01").unwrap();
            assert!(!echoes_from(own, "192.0.2.2:7"));
        });
        assert_eq!(echoed.load(Ordering::Relaxed), before + 1, "the spoofed ones went nowhere");
        assert_eq!(greeted.load(Ordering::Relaxed), 1);
        let usage = network.usage(&id(1)).unwrap();
        assert!(usage.sent_bytes > 100 && usage.received_packets > 3, "{usage:?}");
        assert!(usage.denied > 0 && !diary.0.lock().is_empty(), "{usage:?}");
        for id in [id(1), id(2)] {
            network.detach(&id).unwrap();
            network.detach(&id).unwrap();
        }
        assert_eq!(network.usage(&id(1)), None);
        drop(network);
        assert_eq!(left(), "");
    });
}

#[test]
fn ipv6_is_as_open_and_as_closed() {
    let Some(world) = World::with_v6() else { return };
    let data = tempfile::tempdir().unwrap();
    let _greeted = greeter(world.on_internet(|| TcpListener::bind("[2001:db8:9::9]:8080").unwrap()));
    let near = greeter(world.on_host(|| TcpListener::bind("[::]:9000").unwrap()));
    world.on_host(|| {
        let network = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap();
        let direct = network.attach(&id(1), &owner(), &NetworkPolicy::public()).unwrap();
        let listed = policy(NetworkMode::Allow, &["[2001:db8:9::9]:8080"]);
        let watched = network.attach(&id(2), &owner(), &listed).unwrap();
        assert_eq!((direct.addresses.len(), watched.addresses.len()), (2, 2));
        let neighbour = watched.addresses[1];
        let (direct, watched) = (direct.namespace.unwrap(), watched.namespace.unwrap());
        for sandbox in [&direct, &watched] {
            let said = inside(sandbox, || greeting("[2001:db8:9::9]:8080"));
            assert_eq!(said.as_deref(), Some(crate::world::HOST_V6));
        }
        assert!(inside(&direct, || crate::world::reaches(crate::world::INTERNET_V6)));
        assert!(!inside(&watched, || crate::world::pings(crate::world::INTERNET_V6)));
        let closed = ["[2001:db8::2]:9000".to_owned(), "[fd77:6172:7200::1000]:9000".to_owned()];
        for address in closed.into_iter().chain([format!("[{neighbour}]:9000")]) {
            let said = inside(&direct, || greeting(&address));
            assert!(said.as_ref().is_none_or(|said| said.parse::<IpAddr>().is_err()), "{address}: {said:?}");
        }
        assert_eq!(near.load(Ordering::Relaxed), 0, "the host's own port");
        network.retain(&HashSet::new()).unwrap();
        drop(network);
        assert_eq!(left(), "");
    });
}

#[test]
fn a_change_holds_for_what_is_under_way() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    let _greeted = greeter(world.on_internet(|| TcpListener::bind("192.0.2.1:8080").unwrap()));
    let _also = greeter(world.on_internet(|| TcpListener::bind("192.0.2.2:8080").unwrap()));
    let _echoed = echo(world.on_internet(|| UdpSocket::bind("192.0.2.2:7").unwrap()));
    world.on_host(|| {
        let network = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap();
        let sandbox = network.attach(&id(1), &owner(), &NetworkPolicy::public()).unwrap().namespace.unwrap();
        let open = |to: &str| {
            let stream = TcpStream::connect_timeout(&to.parse().unwrap(), LONG).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let mut stream = std::io::BufReader::new(stream);
            std::io::BufRead::read_line(&mut stream, &mut String::new()).unwrap();
            stream.into_inner()
        };
        let alive = |stream: &mut TcpStream, patience| {
            stream.set_read_timeout(Some(patience)).unwrap();
            stream.write_all(b"x").is_ok() && matches!(stream.read(&mut [0; 1]), Ok(1))
        };
        let soon_echoes = || soon("a packet comes back", || inside(&sandbox, || echoes("192.0.2.2:7")));
        let mut cut = inside(&sandbox, || open("192.0.2.1:8080"));
        assert!(alive(&mut cut, LONG));
        soon_echoes();

        let listed = policy(NetworkMode::Allow, &["192.0.2.2"]);
        network.set(&id(1), &[NetworkPolicy::public(), listed.clone()]).unwrap();
        assert!(!alive(&mut cut, PATIENCE), "what is no longer allowed is cut");
        soon_echoes();
        let greeted = || inside(&sandbox, || greeting("192.0.2.2:8080"));
        soon("it is greeted", || greeted().as_deref() == Some(crate::world::HOST));
        let mut stays = inside(&sandbox, || open("192.0.2.2:8080"));
        network.set(&id(1), std::slice::from_ref(&listed)).unwrap();
        assert!(alive(&mut stays, LONG), "what stays allowed goes on");

        network.set(&id(1), &[NetworkPolicy::none()]).unwrap();
        assert!(!alive(&mut stays, PATIENCE) && inside(&sandbox, || !echoes("192.0.2.2:7")));
        // Opened for a while, by the clock: longer if it was over before anything was sent.
        let opened = [1500, 6000, 20_000].into_iter().any(|ms| {
            let mut timed = NetworkPolicy::of(NetworkMode::Allow);
            timed.grants.push(Grant {
                rule: "192.0.2.2".parse().unwrap(),
                effect: GrantEffect::Allow,
                until_unix_ms: Some(unix_ms() + ms),
                by: "test".to_owned(),
            });
            network.set(&id(1), &[timed]).unwrap();
            inside(&sandbox, || echoes("192.0.2.2:7"))
        });
        assert!(opened);
        soon("it is over", || inside(&sandbox, || !echoes("192.0.2.2:7")));
        let error = network.set(&id(2), &[NetworkPolicy::public()]).unwrap_err();
        assert_eq!(error.kind, warren_core::network::NetworkErrorKind::NotFound);
    });
}

#[test]
fn a_narrower_way_to_the_world_is_noticed() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    let _greeted = greeter(world.on_internet(|| TcpListener::bind("192.0.2.1:8080").unwrap()));
    world.on_host(|| {
        crate::world::ip("link set up0 mtu 1280").unwrap();
        let network = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap();
        for policy in [NetworkPolicy::public(), policy(NetworkMode::Allow, &["192.0.2.1"])] {
            let sandbox = network.attach(&id(1), &owner(), &policy).unwrap().namespace.unwrap();
            let taken = inside(&sandbox, || round("192.0.2.1:8080"));
            assert!(taken < PATIENCE, "{taken:?}");
        }
    });
}

/// How long 800 kB take there and back.
fn round(address: &str) -> Duration {
    let started = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address.parse().unwrap(), PATIENCE).unwrap();
    let mut writing = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        writing.write_all(&vec![7; 800_000]).unwrap();
        writing.shutdown(std::net::Shutdown::Write).unwrap();
    });
    stream.set_read_timeout(Some(5 * PATIENCE)).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    writer.join().unwrap();
    assert!(back.len() >= 800_000);
    started.elapsed()
}

#[test]
fn bytes_are_limited_both_ways() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    let _greeted = greeter(world.on_internet(|| TcpListener::bind("192.0.2.1:8080").unwrap()));
    world.on_host(|| {
        let network = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap();
        let mut slow = NetworkPolicy::public();
        slow.limits = NetworkLimits { up_bytes_per_s: Some(400_000), ..NetworkLimits::default() };
        let sandbox = network.attach(&id(1), &owner(), &slow).unwrap().namespace.unwrap();
        let round = || round("192.0.2.1:8080");
        let up = inside(&sandbox, round);
        // Somebody has to be in its network for it to be changed later.
        let resident = || std::process::Command::new("sleep").arg("60").spawn();
        let mut resident = namespace::visit(sandbox.as_fd(), resident).unwrap();
        network.set(&id(1), &[NetworkPolicy::public()]).unwrap();
        let free = inside(&sandbox, round);
        let mut slow = NetworkPolicy::public();
        slow.limits = NetworkLimits { down_bytes_per_s: Some(400_000), ..NetworkLimits::default() };
        network.set(&id(1), &[slow]).unwrap();
        let down = inside(&sandbox, round);
        resident.kill().unwrap();
        resident.wait().unwrap();
        println!("800 kB there and back: {up:?} limited up, {down:?} limited down, {free:?} without limit");
        assert!(up > Duration::from_millis(1000) && down > Duration::from_millis(1000));
        assert!(free < Duration::from_millis(500));
    });
}
