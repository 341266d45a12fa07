//! Sandboxes do not meet.

use warren_e2e::{Internet, TestEnv};

use super::{assert_closed, assert_open, assert_unheard, create, finish, json, serve};

#[test]
fn check_32_sandboxes_do_not_reach_each_other() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let (one, two) = (server.create(), create(&server, &["--net", "allow", "--allow", "*"]));
    let listen = "import socket, time\n\
                  for family, port in ((socket.AF_INET, 8000), (socket.AF_INET6, 8001)):\n    \
                  s = socket.socket(family); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('' if family == socket.AF_INET else '::', port)); s.listen()\n\
                  u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('', 8000))\n\
                  time.sleep(60)";
    for id in [&one, &two] {
        server.warren(["exec", "-d", id, "--", "python3", "-c", listen]).ok();
    }
    let address = |id: &str| {
        let shown = json(&server, &["net", "show", id, "--json"]);
        shown["addresses"]
            .as_array()
            .unwrap()
            .iter()
            .map(|address| address.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for (from, to) in [(&one, &two), (&two, &one)] {
        for address in address(to) {
            let port = if address.contains(':') { "8001" } else { "8000" };
            assert_closed(&server, from, &["http", &address, port]);
            assert_closed(&server, from, &["udp", &address, port]);
            assert_closed(&server, from, &["ping", &address]);
        }
        for everybody in ["10.213.255.255", "10.213.15.255", "255.255.255.255", "224.0.0.1"] {
            assert_unheard(&server, from, &["udp", everybody, "8000"]);
        }
    }
    let seen = server.shell(&one, "cat /proc/net/arp | wc -l");
    assert!(seen.parse::<u32>().unwrap() <= 2, "{seen}");
    internet.assert_only(&[]);
    finish(server, &internet);
}

/// The sandbox has no right to send what is not its own. What it has is asked of the link's other
/// end, which drops the rest.
#[test]
fn check_33_what_is_sent_in_anothers_name_is_dropped() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let id = server.create();
    assert_open(&server, &id, &["udp", "198.51.100.10", "9000"]);
    // From outside, with rights that the sandbox lacks, on its own end of the link.
    let spoof = "import socket, struct
def checksum(data):
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data)); total = (total >> 16) + (total & 0xffff); total += total >> 16
    return ~total & 0xffff
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0x0800))
mac = s.getsockname()[4]; gateway = bytes.fromhex(open('/proc/net/arp').read().split()[-3].replace(':', '')) if 'eth0' in open('/proc/net/arp').read() else b'\\xff' * 6
for source in ('10.213.0.77', '198.51.100.20', '203.0.113.1', '127.0.0.1'):
    udp = struct.pack('!4H', 5000, 9000, 13, 0) + b'spoof'
    head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton('198.51.100.10'))
    head = head[:10] + struct.pack('!H', checksum(head)) + head[12:]
    s.send(gateway + mac + b'\\x08\\x00' + head + udp)
    s.send(gateway + b'\\x02\\x11\\x22\\x33\\x44\\x55' + b'\\x08\\x00' + head + udp)
";
    let script = env.path("spoof.py");
    std::fs::write(&script, spoof).unwrap();
    let before = internet.contacts_with("udp").len();
    let processes = warren_e2e::processes_of(&id);
    let target = processes.first().expect("the sandbox has processes").to_string();
    let status = std::process::Command::new("nsenter")
        .args(["-t", &target, "-n", "python3"])
        .arg(&script)
        .status()
        .unwrap();
    assert!(status.success(), "the packets could not be sent");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(internet.contacts_with("udp").len(), before, "a spoofed packet arrived");
    internet.assert_only(&["198.51.100.10"]);
    finish(server, &internet);
}

#[test]
fn check_34_a_successor_finds_nothing_of_whom_it_follows() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..10 {
        let id = create(&server, &["--net", "allow", "--allow", "web.test"]);
        let shown = json(&server, &["net", "show", &id, "--json"]);
        let address = shown["addresses"][0].as_str().unwrap().to_owned();
        assert!(seen.insert(address.clone()), "{address} was given out again at once");
        assert_open(&server, &id, &["http", "web.test", "80"]);
        server.warren(["rm", &id]).ok();
    }
    finish(server, &internet);
}
