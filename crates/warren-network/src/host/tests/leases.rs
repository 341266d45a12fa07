//! Rules that one command leaves to the next.

use super::life::Killed;
use super::*;

fn open(data: &Path) -> HostNetwork {
    HostNetwork::open(NetworkOptions { prepared: 0, ..options(data, DomainKind::Run) }).unwrap()
}

fn ports(network: &HostNetwork) -> crate::lease::Ports {
    network.ports
}

#[test]
fn the_next_command_has_the_rules_of_the_last_and_nothing_else_of_it() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    let _greeted = greeter(world.on_internet(|| TcpListener::bind("192.0.2.1:8080").unwrap()));
    world.on_host(|| {
        let (mut before, mut addresses) = (None, HashSet::new());
        for byte in 1..5 {
            let started = Instant::now();
            let network = open(data.path());
            let opened = started.elapsed();
            assert!(before.is_none_or(|before| before == ports(&network)), "the rules are the same");
            before = Some(ports(&network));
            let attached = network.attach(&id(byte), &owner(), &NetworkPolicy::public()).unwrap();
            assert!(addresses.insert(attached.addresses[0]), "nobody has an address of the last");
            let sandbox = attached.namespace.unwrap();
            assert!(inside(&sandbox, || greeting("192.0.2.1:8080")).is_some());
            let ended = Instant::now();
            drop(network);
            println!("opened in {opened:?}, closed in {:?}", ended.elapsed());
            assert!(inside(&sandbox, || greeting("192.0.2.1:8080")).is_none(), "it is closed at once");
            let known = run("conntrack", "-L -f ipv4").unwrap_or_default();
            assert!(!known.contains(&attached.addresses[0].to_string()), "{known}");
        }
        soon("all links are gone", || is_kept(0));
    });
}

#[test]
fn rules_that_somebody_changed_are_made_anew() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    let _greeted = greeter(world.on_internet(|| TcpListener::bind("192.0.2.1:8080").unwrap()));
    world.on_host(|| {
        for change in [
            "flush table inet warren-0",
            "delete table inet warren-0",
            "flush chain inet warren-0 deliver",
            "add rule inet warren-0 spoofed accept",
            "add table inet other",
        ] {
            drop(open(data.path()));
            assert!(is_kept(0), "{}", left());
            run("nft", change).unwrap();
            let network = open(data.path());
            let sandbox = network.attach(&id(1), &owner(), &NetworkPolicy::public()).unwrap();
            let sandbox = sandbox.namespace.unwrap();
            assert!(inside(&sandbox, || greeting("192.0.2.1:8080")).is_some(), "{change}");
            let own = TcpListener::bind("198.51.100.2:0").unwrap().local_addr().unwrap().to_string();
            assert!(inside(&sandbox, || greeting(&own)).is_none(), "the host itself is closed: {change}");
            let rules = run("nft", "list table inet warren-0").unwrap();
            assert!(rules.contains("reject") && rules.contains("masquerade"), "{change}: {rules}");
        }
    });
}

#[test]
fn a_port_that_somebody_took_is_not_led_to() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    world.on_host(|| {
        let network = open(data.path());
        let before = ports(&network);
        drop(network);
        let taken = TcpListener::bind(("0.0.0.0", before.v4.1)).unwrap();
        let network = open(data.path());
        assert_ne!(ports(&network).v4.1, before.v4.1);
        let rules = run("nft", "list table inet warren-0").unwrap();
        assert!(!rules.contains(&format!(":{}", before.v4.1)), "{rules}");
        drop(taken);
    });
}

#[test]
fn commands_at_once_and_a_server_have_rules_of_their_own() {
    let Some(world) = World::new() else { return };
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    world.on_host(|| {
        drop(open(data.path()));
        let server = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap();
        let (one, two, stranger) = (open(data.path()), open(data.path()), open(other.path()));
        let networks = [&server, &one, &two, &stranger];
        let blocks: HashSet<u8> = networks.iter().map(|network| network.shared.maker.block).collect();
        assert_eq!(blocks.len(), 4);
        assert_eq!(one.shared.maker.block, 0, "what waited was taken");
        drop((one, two, stranger));
        assert_eq!(left().matches("warren-").count(), 4, "{}", left());
        drop(server);
        // Those of another directory wait there.
        drop(open(data.path()));
        assert_eq!(left().matches("warren-").count(), 3, "{}", left());
    });
}

#[test]
fn kept_rules_make_room() {
    let Some(world) = World::new() else { return };
    let directories: Vec<_> = (0..20).map(|_| tempfile::tempdir().unwrap()).collect();
    world.on_host(|| {
        for data in &directories {
            drop(open(data.path()));
        }
        assert!(left().matches("warren-").count() <= 9, "{}", left());
        let live: Vec<_> = directories[..16].iter().map(|data| open(data.path())).collect();
        assert_eq!(live.len(), 16);
    });
}

#[test]
fn a_command_may_be_killed_with_rules_of_the_last() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    world.on_host(|| {
        for wait in [None, Some(1), Some(7), Some(23)] {
            drop(open(data.path()));
            let killed = Killed::after("run", data.path(), wait.map(Duration::from_millis));
            let network = open(data.path());
            assert_eq!(network.shared.linked.lock().len(), 0);
            // One is made for the command that has opened.
            soon("its links are gone", || left().matches("wrn").count() <= 1);
            drop((killed, network));
            assert!(is_kept(0), "{}", left());
        }
    });
}
