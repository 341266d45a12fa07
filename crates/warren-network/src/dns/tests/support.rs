use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, SOA, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;
use warren_core::network::{NetworkEntry, NetworkMode, NetworkPolicy, NetworkRule};
use warren_core::{HostName, NetworkObserver, Owner, SandboxId};

use crate::book::{Book, Guest};
use crate::dns::exchange::framed;
use crate::dns::question::Carrier;
use crate::dns::{Names, Servers, Upstream};
use crate::report::Reporter;

/// A name server on loopback that says what the test wants, and remembers what it was asked.
#[derive(Debug)]
pub(super) struct Fake {
    pub(super) address: SocketAddr,
    asked: Arc<Asked>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Debug, Default)]
struct Asked {
    messages: Mutex<Vec<(Carrier, Message)>>,
    /// Where the last came from.
    from: Mutex<Option<SocketAddr>>,
}

/// The packets that a question is answered with; over a stream, the first alone.
pub(super) type Answerer = dyn Fn(&Message, Carrier) -> Vec<Vec<u8>> + Send + Sync;

impl Fake {
    pub(super) async fn new(
        answer: impl Fn(&Message, Carrier) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let (packets, streams) = loop {
            let packets = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            // Another test may have the port for streams.
            if let Ok(streams) = TcpListener::bind(packets.local_addr().unwrap()).await {
                break (packets, streams);
            }
        };
        let address = packets.local_addr().unwrap();
        let asked: Arc<Asked> = Arc::default();
        let answer: Arc<Answerer> = Arc::new(answer);
        let tasks = [
            tokio::spawn(answer_packets(packets, Arc::clone(&answer), Arc::clone(&asked))),
            tokio::spawn(answer_streams(streams, answer, Arc::clone(&asked))),
        ];
        Self { address, asked, tasks }
    }

    pub(super) fn asked(&self) -> Vec<(Carrier, Message)> {
        self.asked.messages.lock().clone()
    }

    pub(super) fn last_from(&self) -> Option<SocketAddr> {
        *self.asked.from.lock()
    }

    /// The questions it got, each as `name TYPE`.
    pub(super) fn heard(&self) -> Vec<String> {
        let shown = |query: &Query| format!("{} {}", query.name, query.query_type);
        self.asked().iter().map(|(_, message)| shown(&message.queries[0])).collect()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// No more than any test looks at: what it costs to remember is not to be measured.
fn remember<T>(list: &Mutex<Vec<T>>, one: T) {
    let mut list = list.lock();
    if list.len() < 1000 {
        list.push(one);
    }
}

async fn answer_packets(socket: UdpSocket, answer: Arc<Answerer>, asked: Arc<Asked>) {
    let mut buffer = [0; 4096];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        let request = Message::from_vec(&buffer[..length]).unwrap();
        remember(&asked.messages, (Carrier::Packet, request.clone()));
        *asked.from.lock() = Some(from);
        for packet in answer(&request, Carrier::Packet) {
            socket.send_to(&packet, from).await.unwrap();
        }
    }
}

async fn answer_streams(listener: TcpListener, answer: Arc<Answerer>, asked: Arc<Asked>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let length = stream.read_u16().await.unwrap();
        let mut bytes = vec![0; length.into()];
        stream.read_exact(&mut bytes).await.unwrap();
        let request = Message::from_vec(&bytes).unwrap();
        remember(&asked.messages, (Carrier::Stream, request.clone()));
        for answer in answer(&request, Carrier::Stream).into_iter().take(1) {
            stream.write_all(&framed(&answer)).await.unwrap();
        }
    }
}

/// Answers every question with these records, as servers do: all that are of the name, the type or
/// aliases.
pub(super) fn always(
    records: Vec<Record>,
) -> impl Fn(&Message, Carrier) -> Vec<Vec<u8>> + Send + Sync + 'static {
    move |request, _| vec![answered(request, &records).to_vec().unwrap()]
}

pub(super) fn answered(request: &Message, records: &[Record]) -> Message {
    let mut answer = failed(request, ResponseCode::NoError);
    let wanted = request.queries[0].query_type;
    let fits = |record: &&Record| record.record_type() == wanted || record.record_type() == RecordType::CNAME;
    answer.answers = records.iter().filter(fits).cloned().collect();
    answer
}

pub(super) fn failed(request: &Message, code: ResponseCode) -> Message {
    let mut answer = Message::response(request.id, OpCode::Query);
    answer.metadata.response_code = code;
    answer.metadata.recursion_available = true;
    answer.queries = request.queries.clone();
    answer.edns.clone_from(&request.edns);
    answer
}

pub(super) fn wire(text: &str) -> Name {
    Name::from_ascii(format!("{}.", text.trim_end_matches('.'))).unwrap()
}

/// `a.example 60 A 192.0.2.1`, and in the same way AAAA, CNAME, TXT and SOA.
pub(super) fn record(text: &str) -> Record {
    let words: Vec<&str> = text.split(' ').collect();
    let [name, ttl, kind, data] = words[..] else { panic!("{text}") };
    let data = match kind {
        "A" => RData::A(A(data.parse().unwrap())),
        "AAAA" => RData::AAAA(AAAA(data.parse().unwrap())),
        "CNAME" => RData::CNAME(CNAME(wire(data))),
        "TXT" => RData::TXT(TXT::new(vec![data.to_owned()])),
        "SOA" => RData::SOA(SOA::new(wire(data), wire(data), 1, 2, 3, 4, 5)),
        kind => panic!("{kind}"),
    };
    Record::from_rdata(wire(name), ttl.parse().unwrap(), data)
}

pub(super) fn records(texts: &[&str]) -> Vec<Record> {
    texts.iter().map(|text| record(text)).collect()
}

pub(super) fn host(text: &str) -> HostName {
    text.parse().unwrap()
}

/// A question as stub resolvers ask it.
pub(super) fn question(name: &str, wanted: RecordType) -> Message {
    let mut message = Message::new(0x7a7a, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(wire(name), wanted));
    message
}

pub(super) fn extended(mut question: Message, payload: u16) -> Message {
    let mut edns = Edns::new();
    edns.set_max_payload(payload);
    question.set_edns(edns);
    question
}

pub(super) fn policy(mode: NetworkMode, allow: &[&str], deny: &[&str]) -> NetworkPolicy {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    NetworkPolicy { allow: rules(allow), deny: rules(deny), ..NetworkPolicy::of(mode) }
}

/// One sandbox, its proxy and a server for it to ask.
pub(super) struct World {
    pub(super) book: Arc<Book>,
    pub(super) guest: Arc<Guest>,
    pub(super) names: Arc<Names>,
    pub(super) fake: Fake,
    entries: Arc<Entries>,
}

#[derive(Default)]
struct Entries(Mutex<Vec<NetworkEntry>>);

impl NetworkObserver for Entries {
    fn saw(&self, _: &SandboxId, entry: NetworkEntry) {
        remember(&self.0, entry);
    }
}

impl World {
    pub(super) async fn new(
        policy: NetworkPolicy,
        answer: impl Fn(&Message, Carrier) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        Self::with_exceptions(policy, &[], answer).await
    }

    pub(super) async fn with_exceptions(
        policy: NetworkPolicy,
        exceptions: &[&str],
        answer: impl Fn(&Message, Carrier) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let fake = Fake::new(answer).await;
        let exceptions: Vec<NetworkRule> = exceptions.iter().map(|text| text.parse().unwrap()).collect();
        let book = Arc::new(Book::new(exceptions));
        let entries = Arc::new(Entries::default());
        book.observe(Arc::clone(&entries) as Arc<dyn NetworkObserver>);
        let guest = enter(&book, 1, Ipv4Addr::LOCALHOST.into(), policy);
        let upstream = Arc::new(Upstream::new(Servers::new(&[fake.address])));
        let reporter = Arc::new(Reporter::new(Arc::clone(&book)));
        let names = Arc::new(Names::new(Arc::clone(&book), upstream, reporter));
        Self { book, guest, names, fake, entries }
    }

    pub(super) async fn ask(&self, name: &str, wanted: RecordType) -> Message {
        self.ask_with(&question(name, wanted), Carrier::Packet).await
    }

    pub(super) async fn ask_with(&self, question: &Message, carrier: Carrier) -> Message {
        let bytes = self.names.respond(&self.guest, &question.to_vec().unwrap(), carrier).await.unwrap();
        let answer = Message::from_vec(&bytes).unwrap();
        assert_eq!(answer.id, question.id);
        assert_eq!(answer.message_type, MessageType::Response);
        answer
    }

    pub(super) fn pinned(&self, name: &str, address: &str) -> bool {
        self.guest.pins.holds(&host(name), address.parse().unwrap())
    }

    /// The reports, each as `Verdict host rule`.
    pub(super) fn told(&self) -> Vec<String> {
        let shown = |entry: &NetworkEntry| {
            format!("{:?} {} {}", entry.verdict, entry.host.as_deref().unwrap_or("-"), entry.rule)
        };
        self.entries.0.lock().iter().map(shown).collect()
    }
}

pub(super) fn enter(book: &Book, number: u8, address: IpAddr, policy: NetworkPolicy) -> Arc<Guest> {
    let id = SandboxId::from_random([number; 16]);
    book.enter(Guest::new(id, Owner::first(), vec![address], &[policy]))
}

/// The records of an answer, each as `name ttl TYPE data`.
pub(super) fn shown(answer: &Message) -> Vec<String> {
    let shown =
        |record: &Record| format!("{} {} {} {}", record.name, record.ttl, record.record_type(), record.data);
    answer.answers.iter().map(shown).collect()
}
