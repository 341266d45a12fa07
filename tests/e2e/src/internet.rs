use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::wait::eventually;

/// An Internet of two network namespaces: a machine on which `warren` runs, and the world behind
/// its one uplink. Documentation addresses answer there, and so do private ones, which nobody may
/// ever reach. The machine's address is known to the test's own namespace, so that clients of a
/// server in it work as ever.
#[derive(Debug)]
pub struct Internet {
    name: String,
    place: PathBuf,
    number: u8,
    children: Vec<Child>,
}

/// Somebody who came to one of the world's servers.
#[derive(Debug, Clone, Deserialize)]
pub struct Contact {
    pub kind: String,
    pub address: String,
    pub port: u16,
    pub peer: String,
    #[serde(default)]
    pub host: Option<String>,
    #[serde(default)]
    pub path: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// A packet that left the machine.
#[derive(Debug, Clone, Deserialize)]
pub struct Packet {
    /// The number of the protocol over Ethernet.
    pub kind: u16,
    #[serde(default)]
    pub source: String,
    #[serde(default)]
    pub to: String,
    /// The number of the protocol over IP.
    #[serde(default)]
    pub protocol: u8,
    #[serde(default)]
    pub port: u16,
}

/// Where the machine's uplink is.
pub const UPLINK: &str = "203.0.113.1";
/// Answers questions about names.
pub const RESOLVER: &str = "192.0.2.53";
const GATEWAY: &str = "203.0.113.2";
const WORLD: [&str; 12] = [
    "198.51.100.10/32",
    "198.51.100.20/32",
    "203.0.113.80/32",
    "192.0.2.53/32",
    "198.51.100.53/32",
    "10.7.7.7/32",
    "169.254.169.254/32",
    "100.64.7.7/32",
    "192.168.7.7/32",
    "172.16.7.7/32",
    "2001:db8:1::10/128",
    "fd00:7::7/128",
];
/// Each has a network of four addresses from the last 128 of 192.0.2.0/24.
const MOST: u8 = 31;

impl Internet {
    /// Names that the zone begins with.
    #[track_caller]
    pub fn new(env: &TestEnv) -> Self {
        let place = env.path("internet");
        fs::create_dir(&place).expect("a directory for the world can be made");
        let number = claim();
        let name = format!("wt{number}");
        let mut internet = Self { name, place, number, children: Vec::new() };
        internet.lay_cables();
        internet.make_certificates();
        internet.zone(json!({
            "web.test": ["198.51.100.10"],
            "api.web.test": ["198.51.100.10"],
            "other.test": ["198.51.100.20"],
            "six.test": ["2001:db8:1::10"],
            "private.test": ["10.7.7.7"],
            "rebind.test": [["198.51.100.10"], ["10.7.7.7"]],
        }));
        let capture = internet.path("packets.jsonl");
        let words = [python("capture.py"), "uplink".into(), capture.clone()];
        let machine = internet.machine();
        internet.spawn(&machine, &words);
        let words = [python("internet.py"), internet.place.clone()];
        let world = internet.world();
        internet.spawn(&world, &words);
        eventually(Duration::from_secs(60), "the world is there", || {
            internet.path("ready").exists()
                && fs::read_to_string(&capture).is_ok_and(|text| text.contains("began"))
        });
        internet
    }

    fn lay_cables(&self) {
        let (machine, world, number) = (self.machine(), self.world(), self.number);
        let addresses: String =
            WORLD.iter().map(|address| format!("ip -n {world} addr add {address} dev lo\n")).collect();
        // Refusals are counted by the second otherwise, and tests ask for more of them than
        // programs do. What the world answers with finds its way back over the uplink; what should
        // never have left does so too.
        run(&format!(
            "set -e
             ip netns add {machine}; ip netns add {world}
             ip link set wt{number}m1 netns {machine} name mgmt
             ip addr add {}/30 dev wt{number}m0; ip link set wt{number}m0 up
             ip -n {machine} addr add {}/30 dev mgmt; ip -n {machine} link set mgmt up; ip -n {machine} link set lo up
             ip -n {machine} link add uplink type veth peer name downlink netns {world}
             ip -n {machine} addr add {UPLINK}/24 dev uplink; ip -n {machine} addr add 2001:db8:2::1/64 dev uplink nodad
             ip -n {world} addr add {GATEWAY}/24 dev downlink; ip -n {world} addr add 2001:db8:2::2/64 dev downlink nodad
             ip -n {machine} link set uplink up; ip -n {world} link set downlink up; ip -n {world} link set lo up
             {addresses}
             ip -n {machine} route add default via {GATEWAY}; ip -n {machine} -6 route add default via 2001:db8:2::2
             ip -n {world} route add default via {UPLINK}; ip -n {world} -6 route add default via 2001:db8:2::1
             nsenter --net=/run/netns/{machine} sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0",
            self.near_side(),
            self.address(),
        ));
    }

    fn make_certificates(&self) {
        let place = self.place.display();
        run(&format!(
            "set -e; cd {place}
             openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj '/CN=Test Root' -keyout ca.key -out ca.pem 2>/dev/null
             openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=web.test' -keyout server.key -out server.csr 2>/dev/null
             printf 'subjectAltName=DNS:web.test,DNS:*.web.test,DNS:other.test,DNS:six.test' > names
             openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem 2>/dev/null"
        ));
    }

    /// From now on names have these addresses.
    pub fn zone(&self, names: Value) {
        let next = self.path("zone.new");
        fs::write(&next, names.to_string()).expect("the zone can be written");
        fs::rename(next, self.path("zone.json")).expect("the zone can be replaced");
    }

    /// The path of a file that web servers answer with at `/…`, or of a certificate.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// Puts a file where every web server has it.
    pub fn publish(&self, path: &str, content: &[u8]) {
        let file = self.path("files").join(path);
        fs::create_dir_all(file.parent().expect("it is in a directory")).expect("directories can be made");
        fs::write(file, content).expect("a file can be written");
    }

    /// The address of the machine on the test's side.
    pub fn address(&self) -> String {
        format!("192.0.2.{}", 128 + 4 * self.number + 2)
    }

    fn near_side(&self) -> String {
        format!("192.0.2.{}", 128 + 4 * self.number + 1)
    }

    /// The name of the machine's namespace.
    pub fn machine(&self) -> String {
        format!("{}-machine", self.name)
    }

    fn world(&self) -> String {
        format!("{}-world", self.name)
    }

    /// The same command on the machine, where sandboxes have networks.
    pub fn on_machine(&self, command: &Command) -> Command {
        let mut inside = within(&self.machine(), command);
        inside.env("WARREN_NETWORK__ENABLED", "true");
        inside
    }

    /// A shell's line on the machine; answers what it prints.
    #[track_caller]
    pub fn shell(&self, line: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        let output = self.on_machine(&command).output().expect("a shell can be run");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// All who have come so far.
    pub fn contacts(&self) -> Vec<Contact> {
        lines(&self.path("contacts.jsonl"))
    }

    /// The clients that came to a server of this kind.
    pub fn contacts_with(&self, kind: &str) -> Vec<Contact> {
        self.contacts().into_iter().filter(|contact| contact.kind == kind).collect()
    }

    /// All packets that have left the machine, but for what finds neighbours.
    pub fn packets(&self) -> Vec<Packet> {
        // What is still on its way through the capture is waited for.
        std::thread::sleep(Duration::from_millis(100));
        // The machine's own talk with its neighbours and routers.
        let local = |packet: &Packet| {
            packet.kind == 0x86dd && (packet.to.starts_with("ff02") || packet.to.starts_with("fe80"))
        };
        let neighbours = |packet: &Packet| packet.kind == 0x0806 || local(packet);
        let all: Vec<Packet> = lines(&self.path("packets.jsonl"));
        all.into_iter().filter(|packet| packet.kind != 0 && !neighbours(packet)).collect()
    }

    /// Insists that nothing has left for anywhere but these addresses, in the machine's own name.
    #[track_caller]
    pub fn assert_only(&self, allowed: &[&str]) {
        let own = [UPLINK, "2001:db8:2::1"];
        let odd = |packet: &Packet| {
            let own_business = packet.protocol == 58 && packet.to.starts_with("2001:db8:2:");
            let meant = allowed.contains(&packet.to.as_str()) && own.contains(&packet.source.as_str());
            !own_business && !meant
        };
        let odd: Vec<Packet> = self.packets().into_iter().filter(odd).collect();
        assert!(odd.is_empty(), "these packets left: {odd:?}");
        assert!(self.contacts_with("trap").is_empty(), "{:?}", self.contacts_with("trap"));
    }

    /// Insists that no link, rule, table or route of a sandbox is left on the machine.
    #[track_caller]
    pub fn assert_clean(&self) {
        self.assert_none_left(|| {
            let tables = self.shell("nft list tables | grep warren || true");
            let rules = self.shell("(ip rule; ip -6 rule) | grep -i prohibit || true");
            [self.links(), tables, rules].concat()
        });
    }

    /// Insists that of commands only rules are left that no link is in, for this many to come.
    #[track_caller]
    pub fn assert_only_rules(&self, count: usize) {
        self.assert_none_left(|| {
            let elements = self.shell("nft list ruleset | grep 'wrn[0-9a-f]*-[0-9a-f]\\{4\\}' || true");
            [self.links(), elements].concat()
        });
        let tables = self.shell("nft list tables | grep warren || true");
        assert_eq!(tables.lines().count(), count, "{tables}");
    }

    fn links(&self) -> String {
        let links = self.shell("ip -o link | grep -o 'wrn[0-9a-f]*-[0-9a-f]*' || true");
        links + &self.shell("ip route | grep wrn || true")
    }

    #[track_caller]
    fn assert_none_left(&self, left: impl Fn() -> String) {
        let mut rest = left();
        for _ in 0..100 {
            if rest.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
            rest = left();
        }
        panic!("left on the machine: {rest}");
    }

    fn spawn(&mut self, namespace: &str, words: &[PathBuf]) {
        let mut command = Command::new("python3");
        command.args(words);
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("world.log"))
            .expect("a log can be kept");
        let child = within(namespace, &command).stdout(Stdio::null()).stderr(log).spawn();
        self.children.push(child.expect("python can be started"));
    }
}

impl Drop for Internet {
    fn drop(&mut self) {
        for child in &mut self.children {
            drop(child.kill());
            drop(child.wait());
        }
        if std::thread::panicking() {
            let log = fs::read_to_string(self.path("world.log")).unwrap_or_default();
            drop(std::io::Write::write_all(&mut std::io::stderr(), log.as_bytes()));
        }
        let (machine, world, number) = (self.machine(), self.world(), self.number);
        let script = format!(
            "ip netns del {machine}; ip netns del {world}; ip link del wt{number}m0 2>/dev/null; true"
        );
        drop(Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status());
    }
}

/// Takes a number: the test that makes the link of this number has it.
fn claim() -> u8 {
    let made = |number: &u8| {
        let script = format!("ip link add wt{number}m0 type veth peer name wt{number}m1");
        Command::new("sh")
            .args(["-c", &script])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    (0..=MOST).find(made).expect("a number for this test's Internet is free")
}

/// The same command in a network namespace.
fn within(namespace: &str, command: &Command) -> Command {
    let mut outer = Command::new("nsenter");
    outer.arg(format!("--net=/run/netns/{namespace}")).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer.stdin(Stdio::null());
    outer
}

fn python(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("world").join(script)
}

#[track_caller]
fn run(script: &str) {
    let output = Command::new("sh").args(["-c", script]).output().expect("a shell can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn lines<T: for<'de> Deserialize<'de>>(path: &Path) -> Vec<T> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
