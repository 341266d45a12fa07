use super::*;

#[test]
fn two_hundred_have_a_network_each() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    let _greeted = greeter(world.on_internet(|| TcpListener::bind("192.0.2.1:8080").unwrap()));
    world.on_host(|| {
        let network =
            HostNetwork::open(NetworkOptions { prepared: 32, ..options(data.path(), DomainKind::Serve) });
        let network = network.unwrap();
        let mut times = Vec::new();
        let mut sandboxes = Vec::new();
        for number in 0..200_u8 {
            // Taken from the stock, not made on the spot: that is what is measured.
            soon("the stock has some", || network.prepared() > 0);
            let mode = if number % 2 == 0 {
                NetworkPolicy::public()
            } else {
                policy(NetworkMode::Allow, &["192.0.2.1:8080"])
            };
            let started = Instant::now();
            let attachment = network.attach(&id(number), &owner(), &mode).unwrap();
            times.push(started.elapsed());
            sandboxes.push(attachment.namespace.unwrap());
        }
        println!("attaching: first {:?}, 200th {:?}", times[0], times[199]);
        times.sort_unstable();
        println!("attaching: median {:?}, slowest {:?}", times[100], times[199]);
        assert!(times[50] < Duration::from_millis(50), "{:?}", times[50]);
        for (number, sandbox) in sandboxes.iter().enumerate().step_by(23) {
            assert!(inside(sandbox, || greeting("192.0.2.1:8080")).is_some(), "{number}");
        }
        let started = Instant::now();
        network.retain(&HashSet::from([id(7)])).unwrap();
        println!("detaching 199 takes {:?}", started.elapsed());
        assert!(inside(&sandboxes[7], || greeting("192.0.2.1:8080")).is_some());
        assert!(inside(&sandboxes[8], || greeting("192.0.2.1:8080")).is_none());
        network.detach(&id(7)).unwrap();
        let started = Instant::now();
        drop(network);
        println!("and until all is gone {:?}", started.elapsed());
        assert_eq!(left(), "");
    });
}

#[test]
fn many_come_and_go_at_once() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    let _greeted = greeter(world.on_internet(|| TcpListener::bind("192.0.2.1:8080").unwrap()));
    world.on_host(|| {
        let network = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap();
        std::thread::scope(|scope| {
            for worker in 0..4_u8 {
                let network = &network;
                scope.spawn(move || {
                    for round in 0..10 {
                        let id = id(worker * 10 + round);
                        let sandbox = network
                            .attach(&id, &owner(), &NetworkPolicy::public())
                            .unwrap()
                            .namespace
                            .unwrap();
                        assert!(inside(&sandbox, || greeting("192.0.2.1:8080")).is_some());
                        network.set(&id, &[policy(NetworkMode::Allow, &["192.0.2.1:1-99"])]).unwrap();
                        assert!(
                            inside(&sandbox, || greeting("192.0.2.1:8080"))
                                .is_none_or(|said| said != crate::world::HOST)
                        );
                        network.detach(&id).unwrap();
                    }
                });
            }
        });
        drop(network);
        assert_eq!(left(), "");
    });
}
