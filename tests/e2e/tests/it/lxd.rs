//! LXD: the suite of all backends, its walls, and a daemon that dies half way.

use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use std::sync::Mutex;
use warren_core::{
    CreateRequest, Isolation, IsolationError, IsolationErrorKind, OwnerBond, Root, RootImage, RootImageName,
    SandboxId, SandboxSpec, TemplateName,
};
use warren_e2e::{
    FOREIGN_IMAGE, IMAGE, Internet, LxdPool, PrivateLxd, TestEnv, TestServer, causes, eventually, has_ended,
    lxd_request, open_lxd, processes_of,
};
use warren_isolate::Lxd;
use warren_testkit::conformance::{Deed, Rig, conformance};
use warren_wire::guest::{Connection, FrameKind, Reader, Reply, Request, Start, parse_reply};

const PATIENCE: Duration = Duration::from_secs(60);

struct LxdRig<'lxd> {
    lxd: &'lxd PrivateLxd,
    /// Closed while another process works.
    backend: Option<Lxd>,
    /// Every sandbox that was asked for.
    asked: Mutex<Vec<SandboxId>>,
    env: TestEnv,
}

impl<'lxd> LxdRig<'lxd> {
    fn new(lxd: &'lxd PrivateLxd) -> Self {
        let env = TestEnv::new();
        let backend = Some(open(lxd, &env));
        Self { lxd, backend, asked: Mutex::default(), env }
    }
}

/// After a check that failed nothing may go on running.
impl Drop for LxdRig<'_> {
    fn drop(&mut self) {
        let backend = self.backend.take().unwrap_or_else(|| open(self.lxd, &self.env));
        for found in backend.list().unwrap_or_default() {
            drop(backend.destroy(&found.id));
        }
        backend.settle(PATIENCE);
    }
}

fn open(lxd: &PrivateLxd, env: &TestEnv) -> Lxd {
    open_lxd(&lxd.socket(), &env.data_dir(), None).expect("the backend opens")
}

fn random_id() -> SandboxId {
    let mut id = [0; 16];
    getrandom::fill(&mut id).expect("there is randomness");
    SandboxId::from_random(id)
}

impl Rig for LxdRig<'_> {
    fn backend(&self) -> &dyn Isolation {
        self.backend.as_ref().expect("it is open")
    }

    fn reopen(&mut self) {
        self.backend = None;
        self.backend = Some(open(self.lxd, &self.env));
    }

    fn request(&self, spec: SandboxSpec, owner: OwnerBond) -> CreateRequest {
        let id = random_id();
        self.asked.lock().expect("nobody panics with it").push(id.clone());
        lxd_request(self.backend(), id, &spec, owner).expect("the image is there")
    }

    fn place(&self) -> PathBuf {
        self.env.path("layer")
    }

    fn steps(&self, deed: Deed) -> Vec<String> {
        let steps: &[&str] = match deed {
            Deed::Create => &["create.directory", "lxd.made", "lxd.started", "create.boot", "create.record"],
            Deed::Start => &["resume.record", "lxd.started", "create.boot"],
            Deed::Halt => &["halt.processes", "halt.record"],
            Deed::Destroy => &["destroy.kill", "reap.files"],
            Deed::Seal | Deed::Suspend => &[],
        };
        steps.iter().map(|step| (*step).to_owned()).collect()
    }

    fn crash(&mut self, step: &str, deed: Deed, request: &CreateRequest) {
        self.backend = None;
        let word = match deed {
            Deed::Create => "create",
            Deed::Start => "resume",
            Deed::Halt => "halt",
            Deed::Destroy => "destroy",
            Deed::Seal | Deed::Suspend => unreachable!("it has no layers, and keeps no processes"),
        };
        let mut life = Command::new(env!("CARGO_BIN_EXE_life"));
        life.env("WARREN_TEST_LXD", self.lxd.socket());
        life.arg(self.env.data_dir()).args([step, word, request.id.as_str()]);
        let output = life.output().expect("it can be started");
        assert_eq!(output.status.signal(), Some(9), "{step} {deed:?}: {output:?}");
        self.backend = Some(open(self.lxd, &self.env));
    }

    fn kill_first_process(&self, id: &SandboxId) {
        let found = self.backend().list().expect("list").into_iter().find(|found| found.id == *id);
        let pid = found.and_then(|found| Pid::from_raw(i32::try_from(found.pid?).ok()?));
        kill_process(pid.expect("it is alive"), Signal::KILL).expect("it can be killed");
    }

    fn leftovers(&self) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = self.census();
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn has_shell(&self) -> bool {
        true
    }
}

impl LxdRig<'_> {
    /// Instances, directories and processes of sandboxes that are not listed.
    fn census(&self) -> Vec<String> {
        let listed: Vec<SandboxId> =
            self.backend().list().expect("list").into_iter().map(|found| found.id).collect();
        let asked = self.asked.lock().expect("nobody panics with it").clone();
        let gone: Vec<SandboxId> = asked.into_iter().filter(|id| !listed.contains(id)).collect();
        let instances = self.lxd.instances();
        let mut left = self.env.census();
        for id in gone {
            let instance = instances.iter().find(|name| name.contains(id.as_str()));
            left.extend(instance.map(|name| format!("instance {name}")));
            let directory = self.env.data_dir().join("lxd/sandboxes").join(id.as_str());
            left.extend(directory.exists().then(|| directory.display().to_string()));
            left.extend(processes_of(id.as_str()).into_iter().map(|pid| format!("process {pid} of {id}")));
        }
        left
    }
}

#[test]
fn lxd_is_a_backend() {
    let lxd = PrivateLxd::start(LxdPool::Directory);
    conformance(|| LxdRig::new(&lxd));
}

#[test]
fn lxd_on_btrfs_is_a_backend() {
    let lxd = PrivateLxd::start(LxdPool::Btrfs);
    conformance(|| LxdRig::new(&lxd));
}

/// A backend with nothing else on the daemon, for one test.
struct Bench {
    backend: Lxd,
    env: TestEnv,
}

impl Bench {
    fn new(lxd: &PrivateLxd) -> Self {
        let env = TestEnv::new();
        Self { backend: open(lxd, &env), env }
    }

    fn request(&self, spec: &SandboxSpec, owner: OwnerBond) -> CreateRequest {
        lxd_request(&self.backend, random_id(), spec, owner).expect("the image is there")
    }

    fn made(&self, spec: &SandboxSpec, owner: OwnerBond) -> SandboxId {
        let made = self.backend.create(self.request(spec, owner));
        made.unwrap_or_else(|error| panic!("{}", causes(&error))).id
    }

    /// Runs a shell's line to its end: its exit code and all that it wrote.
    fn shell(&self, id: &SandboxId, line: &str) -> (i32, String) {
        let stream = UnixStream::from(self.backend.dial(id).expect("dial"));
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let argv = ["sh", "-c", line].map(Into::into).to_vec();
        let start = Start { argv, follow: Some(Reader::Holds), ..Start::default() };
        let mut call = Connection::open(stream, &Request::Start(start)).expect("a call");
        call.reply().unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut output = Vec::new();
        loop {
            let frame = call.next_frame().expect("a frame").expect("an end");
            match frame.kind {
                FrameKind::Stdout | FrameKind::Stderr => output.extend_from_slice(&frame.payload),
                FrameKind::Message => {
                    if let Reply::Exited(exit) = parse_reply(&frame.payload).expect("a reply") {
                        return (exit.code, String::from_utf8_lossy(&output).into_owned());
                    }
                }
                FrameKind::Data | FrameKind::End => {}
            }
        }
    }

    fn leave_nothing(self, lxd: &PrivateLxd) {
        for found in self.backend.list().expect("list") {
            self.backend.destroy(&found.id).expect("destroy");
        }
        assert!(self.backend.settle(PATIENCE), "clean-up does not end");
        drop(self.backend);
        assert_eq!(lxd.instances(), Vec::<String>::new());
        let kept = std::fs::read_dir(self.env.data_dir().join("lxd/sandboxes")).expect("it is there");
        assert_eq!(kept.count(), 0, "a directory is left");
    }
}

fn root() -> SandboxSpec {
    SandboxSpec { user: Some("root".to_owned()), ..SandboxSpec::new(TemplateName::host()) }
}

#[test]
fn walls_of_lxd_stand() {
    let lxd = PrivateLxd::start(LxdPool::Directory);
    let bench = Bench::new(&lxd);
    let id = bench.made(&root(), OwnerBond::DiesWithOwner);
    let shell = |line: &str| bench.shell(&id, line);
    let (_, status) = shell("cat /proc/self/status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it is told");
        line.trim().to_owned()
    };
    for set in ["CapBnd:", "CapPrm:", "CapEff:"] {
        assert_eq!(field(set), "00000000000000fb", "{set}");
    }
    assert_eq!((field("CapInh:"), field("CapAmb:")), ("0".repeat(16), "0".repeat(16)));
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".to_owned(), "2".to_owned()));
    assert_eq!(field("Seccomp_filters:"), "2", "LXD's and our own");
    let ids = |bench: &Bench, id: &SandboxId| -> Vec<u32> {
        let (_, map) = bench.shell(id, "cat /proc/self/uid_map");
        map.split_whitespace().map(|word| word.parse().expect("a number")).collect()
    };
    let (first, second) = (ids(&bench, &id), bench.made(&root(), OwnerBond::DiesWithOwner));
    assert!(first[0] == 0 && first[1] > 0 && first[2] == 65_536, "{first:?}");
    assert_ne!(first[1], ids(&bench, &second)[1], "each has ids of its own");
    for refused in [
        "mount -t tmpfs none /tmp",
        "umount /proc",
        "umount /.warren-agent",
        "unshare -U true",
        "mknod /tmp/disk b 254 0",
        "chroot / true",
        "echo 1 > /proc/sys/kernel/panic",
        "cat /proc/1/environ",
        "cat /proc/1/maps",
        "nsenter -t 1 -m true",
        "echo x > /.warren/more",
        "rm /.warren/warren-guest",
        "echo x > /.warren-agent/more",
        "rm /.warren-agent/agent.sock",
        "mv /.warren-agent /elsewhere",
        "cat /.warren-agent/plan",
        "echo x > /sys/more",
    ] {
        assert_ne!(shell(refused).0, 0, "{refused}");
    }
    let covered =
        "for file in kcore keys kallsyms timer_list interrupts; do cat /proc/$file; done 2>/dev/null | wc -c";
    assert_eq!(shell(covered).1.trim(), "0");
    assert_eq!(
        shell("ls /sys /proc/irq /proc/bus 2>/dev/null | grep -v : | tr -d '\\n' | wc -c").1.trim(),
        "0"
    );
    let (_, devices) = shell(
        "for file in /dev/* /dev/net/*; do test -b $file && echo $file; stat -c %t:%T $file; done | sort",
    );
    assert!(!devices.contains("/dev/"), "a disk: {devices}");
    // `/dev/fuse` is 10:229 and `/dev/net/tun` 10:200.
    assert!(!devices.contains("a:e5") && !devices.contains("a:c8"), "{devices}");
    assert_eq!(shell("test -e /dev/lxd || test -e /dev/.lxd-mounts").0, 1, "nothing leads to the daemon");
    assert_eq!(shell("tail -n +3 /proc/net/dev | cut -d: -f1").1.trim(), "lo");
    assert_eq!(shell("uname -n").1.trim(), "sandbox");
    let (code, said) = shell("echo x > /dev/shm/x && rm /dev/shm/x && touch /root/x && chown user /root/x");
    assert_eq!(code, 0, "{said}");
    bench.leave_nothing(&lxd);
}

#[test]
fn an_image_that_cannot_be_used_is_refused_before_anything_is_made() {
    let lxd = PrivateLxd::start(LxdPool::Directory);
    let bench = Bench::new(&lxd);
    for (name, why) in
        [("no/such:image", "no image"), (FOREIGN_IMAGE, "riscv64"), ("0123456789ab", "no image")]
    {
        let image: RootImage = name.parse::<RootImageName>().expect("a name").into();
        let refused = bench.backend.image(&image).expect_err(name);
        assert_eq!(refused.kind, IsolationErrorKind::Invalid, "{}", causes(&refused));
        assert!(refused.to_string().contains(why), "{refused}");
        let whole = bench.request(&root(), OwnerBond::DiesWithOwner);
        let trees = whole.root.trees().to_vec();
        let request = CreateRequest { root: Root::Image { image, trees }, ..whole };
        let refused = bench.backend.create(request).expect_err(name);
        assert_eq!(refused.kind, IsolationErrorKind::Invalid, "{}", causes(&refused));
        assert!(lxd.instances().is_empty() && bench.backend.list().expect("list").is_empty());
    }
    // An alias may come to mean something else: a digest does not.
    let asked: RootImage = IMAGE.parse::<RootImageName>().expect("a name").into();
    let found = bench.backend.image(&asked).expect("it is there").image;
    assert_eq!(bench.backend.image(&found).expect("by its digest").image, found);
    bench.leave_nothing(&lxd);
}

#[test]
fn sandboxes_outlast_the_daemon_and_nothing_is_lost_or_left() {
    let mut lxd = PrivateLxd::start(LxdPool::Directory);
    let bench = Bench::new(&lxd);
    let away = |error: IsolationError| assert_eq!(error.kind, IsolationErrorKind::Away, "{}", causes(&error));
    let id = bench.made(&root(), OwnerBond::Outlives);
    assert_eq!(bench.shell(&id, "echo work > /root/kept").0, 0);
    let watched = bench.backend.watch(&id).expect("watch");
    let request = bench.request(&root(), OwnerBond::Outlives);
    lxd.kill();
    // What needs no daemon goes on.
    assert_eq!(bench.shell(&id, "cat /root/kept"), (0, "work\n".to_owned()));
    assert!(bench.backend.usage(&id).expect("usage").pids >= 1 && !has_ended(&watched, Duration::ZERO));
    away(bench.backend.list().expect_err("list"));
    away(bench.backend.freeze(&id).expect_err("freeze"));
    away(bench.backend.halt(&id).expect_err("halt"));
    away(bench.backend.destroy(&id).expect_err("destroy"));
    away(bench.backend.create(request.clone()).expect_err("create"));
    // Who opens it now judges nobody.
    drop(bench.backend);
    let bench = Bench { backend: open(&lxd, &bench.env), env: bench.env };
    assert!(!bench.backend.settle(Duration::from_millis(500)), "the search waits for the daemon");
    lxd.restart();
    assert!(bench.backend.settle(PATIENCE));
    let listed = bench.backend.list().expect("list");
    assert!(listed.len() == 1 && listed[0].id == id && listed[0].alive, "{listed:?}");
    assert_eq!(bench.shell(&id, "cat /root/kept"), (0, "work\n".to_owned()));
    assert_eq!(bench.backend.create(request).map(drop).map_err(|error| causes(&error)), Ok(()));
    bench.leave_nothing(&lxd);
}

#[test]
fn a_daemon_that_is_killed_while_it_works_leaves_nothing_half_made() {
    let mut lxd = PrivateLxd::start(LxdPool::Directory);
    let bench = Bench::new(&lxd);
    let (mut made, mut failed) = (0, 0);
    for delay in [2, 20, 60, 120, 200, 320] {
        let request = bench.request(&root(), OwnerBond::Outlives);
        let id = request.id.clone();
        let created = std::thread::scope(|scope| {
            let create = scope.spawn(|| bench.backend.create(request));
            std::thread::sleep(Duration::from_millis(delay));
            lxd.kill();
            create.join().expect("it does not panic")
        });
        lxd.restart();
        assert!(bench.backend.settle(PATIENCE * 2), "{delay} ms: what is left is removed");
        match created {
            Ok(_) => {
                made += 1;
                assert_eq!(bench.shell(&id, "echo well"), (0, "well\n".to_owned()));
                bench.backend.destroy(&id).expect("destroy");
            }
            Err(error) => {
                failed += 1;
                assert_eq!(error.kind, IsolationErrorKind::Away, "{delay} ms: {}", causes(&error));
            }
        }
        assert_eq!(lxd.instances(), Vec::<String>::new(), "{delay} ms");
        assert_eq!(processes_of(id.as_str()), Vec::<u32>::new(), "{delay} ms");
    }
    assert!(failed > 0, "none was hit half way ({made} made)");
    bench.leave_nothing(&lxd);
}

#[test]
fn a_sandbox_that_dies_with_its_maker_ends_at_once() {
    let lxd = PrivateLxd::start(LxdPool::Directory);
    let Bench { backend, env } = Bench::new(&lxd);
    let request =
        lxd_request(&backend, random_id(), &root(), OwnerBond::DiesWithOwner).expect("the image is there");
    let id = backend.create(request).expect("it is made").id;
    let watched = backend.watch(&id).expect("watch");
    drop(backend);
    assert!(has_ended(&watched, PATIENCE), "its agent has seen the end of its lifeline");
    let bench = Bench { backend: open(&lxd, &env), env };
    assert!(bench.backend.settle(PATIENCE) && bench.backend.list().expect("list").is_empty());
    bench.leave_nothing(&lxd);
}

#[test]
fn the_server_serves_sandboxes_of_lxd_and_waits_for_its_daemon() {
    let mut lxd = PrivateLxd::start(LxdPool::Directory);
    let env = TestEnv::new();
    let socket = lxd.socket().to_string_lossy().into_owned();
    let setup = TestServer::setup(&env).set("backends.enabled", "[native, lxd]").set("lxd.socket", &socket);
    let mut server = setup.set("timeouts.sweep", "1s").start();
    let id = server.warren(["create", "--backend", "lxd", "--image", IMAGE, "--user", "root"]).ok().line();
    assert_eq!(server.shell(&id, "echo work > /root/kept; id -u"), "0");
    server.warren(["stop", &id]).ok();
    server.warren(["resume", &id]).ok();
    assert_eq!(server.shell(&id, "cat /root/kept"), "work");
    let refused = server.warren(["create", "--backend", "lxd", "--image", "no/such"]);
    assert!(refused.errors().contains("no/such"), "{}", refused.errors());
    let refused = server.warren(["create", "--backend", "lxd"]);
    assert!(refused.errors().contains("roots"), "a template is no image: {}", refused.errors());
    server.kill();
    lxd.kill();
    server.start_again();
    eventually(PATIENCE, "it is unreachable", || server.warren(["ls"]).text().contains("unreachable"));
    lxd.restart();
    eventually(PATIENCE, "it is back", || {
        server.warren(["exec", &id, "--", "cat", "/root/kept"]).text() == "work\n"
    });
    server.warren(["rm", &id]).ok();
    assert_eq!(lxd.instances(), Vec::<String>::new());
    server.finish();
}

#[test]
fn network_policies_hold_in_sandboxes_of_lxd() {
    let lxd = PrivateLxd::start(LxdPool::Directory);
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let socket = lxd.socket().to_string_lossy().into_owned();
    let setup = TestServer::setup(&env).inside(&internet).set("network.enabled", "true");
    let server = setup.set("backends.enabled", "[lxd]").set("lxd.socket", &socket).start();
    let reaches = |id: &str, address: &str| {
        let line = format!("exec 3<>/dev/tcp/{address} && head -c 1 <&3");
        server.warren(["exec", id, "--timeout", "20s", "--", "bash", "-c", &line]).text() == "2"
    };
    let words = ["create", "--backend", "lxd", "--image", IMAGE, "--net"];
    let made = |network: &str| server.warren(words.iter().copied().chain([network])).ok().line();
    let (public, none) = (made("public"), made("none"));
    assert!(reaches(&public, "198.51.100.10/2525"));
    for closed in ["10.7.7.7/2525", "169.254.169.254/80", "192.168.7.7/2525"] {
        assert!(!reaches(&public, closed), "{closed}");
    }
    assert!(!reaches(&none, "198.51.100.10/2525"));
    internet.assert_only(&["198.51.100.10"]);
    server.finish();
    assert_eq!(lxd.instances(), Vec::<String>::new());
}
