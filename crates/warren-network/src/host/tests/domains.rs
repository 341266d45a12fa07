use super::*;
use crate::claims::ClaimError;

#[test]
fn several_processes_have_a_block_each() {
    let Some(world) = World::new() else { return };
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _greeted = greeter(world.on_internet(|| TcpListener::bind("192.0.2.1:8080").unwrap()));
    world.on_host(|| {
        let server = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap();
        let second = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap_err();
        assert!(matches!(second, OpenError::Claim(ClaimError::InUse)), "{second}");
        let command = HostNetwork::open(options(data.path(), DomainKind::Run)).unwrap();
        let stranger = HostNetwork::open(options(other.path(), DomainKind::Serve)).unwrap();
        let networks = [&server, &command, &stranger];
        let blocks: HashSet<u8> = networks.iter().map(|network| network.shared.maker.block).collect();
        assert_eq!(blocks.len(), 3);
        for (byte, network) in (1..).zip(networks) {
            for policy in [NetworkPolicy::public(), policy(NetworkMode::Allow, &["192.0.2.1"])] {
                let sandbox = network.attach(&id(byte), &owner(), &policy).unwrap().namespace.unwrap();
                assert!(inside(&sandbox, || greeting("192.0.2.1:8080")).is_some(), "{byte}");
            }
        }
        drop(command);
        soon("a command's link goes with its namespace", || !left().contains("wrn1-"));
        server.detach(&id(1)).unwrap();
        stranger.detach(&id(3)).unwrap();
        drop((server, stranger));
        soon("links go", || !left().contains("wrn"));
        assert!(is_kept(1), "a command leaves its rules: {}", left());
    });
}

#[test]
fn a_subnet_is_a_sixteen() {
    let data = tempfile::tempdir().unwrap();
    let options =
        NetworkOptions { subnet: "10.213.0.0/24".parse().unwrap(), ..options(data.path(), DomainKind::Run) };
    assert!(matches!(HostNetwork::open(options), Err(OpenError::Subnet(_))));
}

#[test]
fn without_rights_nothing_is_begun() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    world.on_host(|| {
        // Rights are a thread's own, and this one ends.
        let mut rights = rustix::thread::capabilities(None).unwrap();
        rights.effective -= rustix::thread::CapabilitySet::NET_ADMIN;
        rustix::thread::set_capabilities(None, rights).unwrap();
        let error = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap_err();
        assert!(matches!(error, OpenError::Rights), "{error}");
        assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0);
        let checks = HostNetwork::examine();
        assert!(checks.len() == 1 && checks[0].found.contains("NET_ADMIN"), "{checks:?}");
    });
}

#[test]
fn a_subnet_that_the_host_is_in_is_refused() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    world.on_host(|| {
        crate::world::ip("address add 10.213.7.7/24 dev up0").unwrap();
        let error = HostNetwork::open(options(data.path(), DomainKind::Run)).unwrap_err();
        assert!(
            matches!(error, OpenError::OwnAddress { .. }) && error.to_string().contains("10.213.7.7"),
            "{error}"
        );
        assert_eq!(left(), "");
    });
}

#[test]
fn a_secret_that_is_not_there_is_named() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    world.on_host(|| {
        let network = HostNetwork::open(options(data.path(), DomainKind::Run)).unwrap();
        let policy = NetworkPolicy { secrets: vec!["token".parse().unwrap()], ..NetworkPolicy::public() };
        let error = network.attach(&id(1), &owner(), &policy).unwrap_err();
        assert_eq!(error.kind, warren_core::network::NetworkErrorKind::NoSecret);
        assert!(error.to_string().contains("`token`"));
        assert_eq!(network.usage(&id(1)), None);
    });
}
