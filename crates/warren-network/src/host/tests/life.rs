use super::*;

/// Where the child finds what it is to do.
const ROLE: &str = "WARREN_NETWORK_TEST_CHILD";
/// Set for a child that attaches and detaches without end.
const HURRIES: &str = "WARREN_NETWORK_TEST_HURRIES";

/// Not a test: what the killed process of other tests does. Its first argument is a data directory,
/// its second a kind.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (kind, data) = role.split_once(':').unwrap();
    let kind = if kind == "serve" { DomainKind::Serve } else { DomainKind::Run };
    let network = HostNetwork::open(options(Path::new(data), kind)).unwrap();
    let (public, listed) = (NetworkPolicy::public(), policy(NetworkMode::Allow, &["192.0.2.1:8080"]));
    let one = network.attach(&id(1), &owner(), &public).unwrap().namespace.unwrap();
    let two = network.attach(&id(2), &owner(), &listed).unwrap().namespace.unwrap();
    let resident = |namespace: &OwnedFd| {
        let sleep = || std::process::Command::new("sleep").arg("100").spawn();
        namespace::visit(namespace.as_fd(), sleep).unwrap().id()
    };
    println!("ready {} {}", resident(&one), resident(&two));
    for number in (10..100).cycle() {
        let hurries = std::env::var_os(HURRIES).is_some();
        std::thread::sleep(if hurries { Duration::ZERO } else { Duration::from_secs(60) });
        network.attach(&id(number), &owner(), &public).unwrap();
        network.set(&id(number), std::slice::from_ref(&listed)).unwrap();
        network.detach(&id(number.saturating_sub(5))).unwrap();
    }
}

/// A process that has attached two sandboxes, each with a program in it, and that was killed.
pub(super) struct Killed {
    residents: [u32; 2],
}

impl Killed {
    pub(super) fn new(kind: &str, data: &Path) -> Self {
        Self::after(kind, data, None)
    }

    /// Killed so long after it began to attach and detach.
    pub(super) fn after(kind: &str, data: &Path, hurry: Option<Duration>) -> Self {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "host::tests::life::child", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, format!("{kind}:{}", data.display()));
        if hurry.is_some() {
            command.env(HURRIES, "yes");
        }
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let ready =
            lines.map_while(Result::ok).find_map(|line| Some(line.split_once("ready ")?.1.to_owned()));
        std::thread::sleep(hurry.unwrap_or_default());
        child.kill().unwrap();
        child.wait().unwrap();
        let ready = ready.expect("the child attaches two sandboxes");
        let mut pids = ready.split(' ').map(|pid| pid.trim().parse().unwrap());
        Self { residents: [pids.next().unwrap(), pids.next().unwrap()] }
    }

    fn network(&self, which: usize) -> OwnedFd {
        namespace::of_process(self.residents[which]).unwrap()
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        for pid in self.residents {
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

#[test]
fn sandboxes_outlive_the_server_and_are_adopted() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    let _greeted = greeter(world.on_internet(|| TcpListener::bind("192.0.2.1:8080").unwrap()));
    world.on_host(|| {
        let killed = Killed::new("serve", data.path());
        let (public, listed) = (killed.network(0), killed.network(1));
        assert!(inside(&public, || greeting("192.0.2.1:8080")).is_some(), "the kernel keeps forwarding");
        assert!(inside(&listed, || greeting("192.0.2.1:8080")).is_none(), "nobody can judge it: closed");

        let network = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap();
        assert!(inside(&listed, || greeting("192.0.2.1:8080")).is_none(), "nobody has adopted it");
        let policy = policy(NetworkMode::Allow, &["192.0.2.1:8080"]);
        let adopted = network.adopt(&id(2), &owner(), &policy).unwrap();
        assert!(adopted.namespace.is_none() && adopted.addresses.len() == 1);
        assert!(inside(&listed, || greeting("192.0.2.1:8080")).is_some());
        let error = network.adopt(&id(3), &owner(), &policy).unwrap_err();
        assert_eq!(error.kind, warren_core::network::NetworkErrorKind::NotFound);

        network.retain(&HashSet::from([id(2)])).unwrap();
        assert!(inside(&public, || greeting("192.0.2.1:8080")).is_none(), "the first is nobody's");
        assert!(inside(&listed, || greeting("192.0.2.1:8080")).is_some());
        network.detach(&id(2)).unwrap();
        drop(network);
        assert_eq!(left(), "");
    });
}

#[test]
fn what_a_dead_command_has_left_is_removed() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    world.on_host(|| {
        let killed = Killed::new("run", data.path());
        assert_ne!(left(), "");
        let network =
            HostNetwork::open(NetworkOptions { prepared: 0, ..options(data.path(), DomainKind::Run) });
        assert!(left().contains("warren-0"), "the block is free again: {}", left());
        // One that was just being made goes with its namespace, when the kernel ends that.
        // One is made for the command that has opened.
        soon("its links are gone", || left().matches("wrn").count() <= 1);
        drop(killed);
        drop(network);
        assert!(is_kept(0), "{}", left());
        let files: Vec<_> = std::fs::read_dir(data.path().join("networks")).unwrap().collect();
        assert_eq!(files.len(), 3, "only the directory's number, the ledger and a lease: {files:?}");
    });
}

#[test]
fn a_server_that_never_comes_back_is_cleared_away() {
    let Some(world) = World::new() else { return };
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    world.on_host(|| {
        let killed = Killed::new("serve", data.path());
        let options = || NetworkOptions { prepared: 0, ..options(other.path(), DomainKind::Serve) };
        drop(HostNetwork::open(options()).unwrap());
        assert!(left().contains("warren-0"), "its sandboxes live: {}", left());
        drop(killed);
        soon("their links are gone", || !left().contains("wrn"));
        drop(HostNetwork::open(options()).unwrap());
        assert_eq!(left(), "");
    });
}

#[test]
fn a_server_may_be_killed_at_any_moment() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    world.on_host(|| {
        for wait in [1, 5, 13, 29, 60] {
            let killed = Killed::after("serve", data.path(), Some(Duration::from_millis(wait)));
            let network = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap();
            network.adopt(&id(1), &owner(), &NetworkPolicy::public()).unwrap();
            network.retain(&HashSet::from([id(1)])).unwrap();
            soon("the others are gone", || {
                let links = run("ip", "-br link").unwrap();
                links.lines().filter(|line| line.starts_with("wrn")).count() == 1 + network.prepared()
            });
            network.detach(&id(1)).unwrap();
            drop((network, killed));
            assert_eq!(left(), "");
        }
    });
}

#[test]
fn nobody_takes_the_table_away_for_long() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    let echoed = echo(world.on_internet(|| UdpSocket::bind("192.0.2.2:7").unwrap()));
    world.on_host(|| {
        let mut network = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap();
        let sandbox = network.attach(&id(1), &owner(), &NetworkPolicy::public()).unwrap().namespace.unwrap();
        assert!(inside(&sandbox, || echoes("192.0.2.2:7")));
        drop(run("nft", "flush ruleset"));
        drop(run("nft", "delete table inet warren-0"));
        drop(run("ip", "rule del priority 16"));
        soon("the guard is back", || run("ip", "rule").unwrap().contains("prohibit"));
        soon("the table is back", || inside(&sandbox, || echoes("192.0.2.2:7")));
        network.shared.table.delete().unwrap();
        soon("the table is back again", || inside(&sandbox, || echoes("192.0.2.2:7")));

        // As long as it is gone, nothing gets through.
        network.watcher = None;
        network.shared.table.delete().unwrap();
        let before = echoed.load(Ordering::Relaxed);
        assert!(!inside(&sandbox, || echoes("192.0.2.2:7") || crate::world::pings("192.0.2.1")));
        assert_eq!(echoed.load(Ordering::Relaxed), before);
        network.shared.table.restore().unwrap();
        assert!(inside(&sandbox, || echoes("192.0.2.2:7")));
    });
}

#[test]
fn a_command_begins_and_ends_quickly() {
    let Some(world) = World::new() else { return };
    let data = tempfile::tempdir().unwrap();
    world.on_host(|| {
        let options = NetworkOptions { prepared: 0, ..options(data.path(), DomainKind::Run) };
        let started = Instant::now();
        let network = HostNetwork::open(options).unwrap();
        let opened = started.elapsed();
        let sandbox = network.attach(&id(1), &owner(), &NetworkPolicy::public()).unwrap();
        let attached = started.elapsed();
        drop((network, sandbox));
        println!("opened after {opened:?}, attached after {attached:?}, gone after {:?}", started.elapsed());
        soon("its link goes with its namespace", || is_kept(0));
    });
}
