use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::*;
use crate::world::INTERNET_V6;

/// A name server: `NAME.example` is at 203.0.113.9 and at an IPv6 address, `inner.example` at a
/// private one. Keeps what it was asked.
fn name_server(socket: UdpSocket) -> Arc<Mutex<Vec<String>>> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let mut message = Message::from_vec(&buffer[..length]).unwrap();
            let (name, kind) = (message.queries[0].name.clone(), message.queries[0].query_type);
            kept.lock().push(format!("{name} {kind}"));
            let address = if name.to_ascii().starts_with("inner") { [10, 0, 0, 1] } else { [203, 0, 113, 9] };
            let data = match kind {
                RecordType::A => RData::A(A(address.into())),
                _ => RData::AAAA(AAAA(INTERNET_V6.parse().unwrap())),
            };
            message.metadata.message_type = MessageType::Response;
            message.add_answer(Record::from_rdata(name, 300, data));
            drop(socket.send_to(&message.to_vec().unwrap(), from));
        }
    });
    asked
}

fn question(name: &str, kind: RecordType) -> Vec<u8> {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(format!("{name}.")).unwrap(), kind));
    message.to_vec().unwrap()
}

/// The answer of a resolver at this address, in a packet from just there.
fn answer(resolver: &str, name: &str, kind: RecordType) -> Option<Vec<String>> {
    let resolver: SocketAddr = resolver.parse().unwrap();
    let any: IpAddr = if resolver.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(resolver).unwrap();
    socket.send(&question(name, kind)).unwrap();
    let mut buffer = [0; 2048];
    let length = socket.recv(&mut buffer).ok()?;
    Some(shown(&buffer[..length]))
}

fn answer_by_stream(resolver: &str, name: &str) -> Option<Vec<String>> {
    let mut stream = TcpStream::connect_timeout(&resolver.parse().unwrap(), PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let asked = question(name, RecordType::A);
    stream.write_all(&[&[0, u8::try_from(asked.len()).unwrap()], &asked[..]].concat()).unwrap();
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut bytes = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut bytes).ok()?;
    Some(shown(&bytes))
}

fn shown(bytes: &[u8]) -> Vec<String> {
    let message = Message::from_vec(bytes).unwrap();
    let code =
        (message.response_code != ResponseCode::NoError).then(|| format!("{:?}", message.response_code));
    code.into_iter().chain(message.answers.iter().map(|record| record.data.to_string())).collect()
}

#[test]
fn every_question_is_answered_by_us_whomever_it_was_for() {
    let Some(world) = World::with_v6() else { return };
    let data = tempfile::tempdir().unwrap();
    let asked = name_server(world.on_internet(|| UdpSocket::bind("192.0.2.1:53").unwrap()));
    let others = ["203.0.113.9:53", "[2001:db8:9::9]:53"];
    let others = others.map(|other| echo(world.on_internet(|| UdpSocket::bind(other).unwrap())));
    let streams = greeter(world.on_internet(|| TcpListener::bind("203.0.113.9:53").unwrap()));
    let _reached = greeter(world.on_internet(|| TcpListener::bind("203.0.113.9:8080").unwrap()));
    world.on_host(|| {
        let network = HostNetwork::open(options(data.path(), DomainKind::Serve)).unwrap();
        let listed = policy(NetworkMode::Allow, &["ok.example:8080", "inner.example"]);
        let sandbox = network.attach(&id(1), &owner(), &listed).unwrap().namespace.unwrap();
        inside(&sandbox, || {
            assert_eq!(greeting("203.0.113.9:8080"), None, "not answered for any name yet");
            let gateway = Some(vec!["169.254.77.1".to_owned()]);
            let there = Some(vec!["203.0.113.9".to_owned()]);
            for resolver in ["169.254.77.1:53", "203.0.113.9:53", "192.0.2.1:53", "[2001:db8:9::9]:53"] {
                assert_eq!(answer(resolver, "ok.example", RecordType::A), there, "{resolver}");
                assert_eq!(answer(resolver, "data.evil.example", RecordType::A), gateway, "{resolver}");
                assert_eq!(answer(resolver, "data.evil.example", RecordType::AAAA), Some(Vec::new()));
                assert_eq!(answer_by_stream(resolver, "ok.example"), there, "{resolver}");
                let private = answer(resolver, "inner.example", RecordType::A);
                assert_eq!(private, Some(vec!["NXDomain".to_owned()]), "{resolver}");
            }
            assert_eq!(greeting("203.0.113.9:8080").as_deref(), Some(crate::world::HOST));
        });
        network.detach(&id(1)).unwrap();
    });
    let asked = asked.lock();
    assert!(
        asked.iter().all(|asked| ["ok.example. A", "inner.example. A"].contains(&asked.as_str())),
        "{asked:?}"
    );
    assert!(others.iter().all(|other| other.load(Ordering::Relaxed) == 0));
    assert_eq!(streams.load(Ordering::Relaxed), 0);
}
