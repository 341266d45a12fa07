//! The sockets that questions arrive on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::op::Message;
use hickory_proto::rr::{Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use warren_core::network::{NetworkMode, NetworkPolicy};

use super::support::*;
use crate::dns::exchange::framed;
use crate::dns::serve;

const MOMENT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

/// A proxy that listens on all addresses, as behind a redirection.
struct Served {
    world: World,
    port: u16,
    task: JoinHandle<std::io::Result<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn served(world: World, address: IpAddr) -> Served {
    let (packets, streams) = loop {
        let packets = std::net::UdpSocket::bind((address, 0)).unwrap();
        if let Ok(streams) = std::net::TcpListener::bind(packets.local_addr().unwrap()) {
            break (packets, streams);
        }
    };
    let port = packets.local_addr().unwrap().port();
    let task = tokio::spawn(serve(packets, streams, Arc::clone(&world.names)));
    Served { world, port, task }
}

async fn world() -> World {
    let many = (1..=60).map(|n| record(&format!("many.example 60 A 192.0.2.{n}")));
    let answers: Vec<Record> = many.chain([record("a.example 60 A 192.0.2.1")]).collect();
    World::new(policy(NetworkMode::Allow, &["*.example"], &[]), move |request, _| {
        let own = |record: &&Record| record.name == request.queries[0].name;
        let own: Vec<Record> = answers.iter().filter(own).cloned().collect();
        vec![answered(request, &own).to_vec().unwrap()]
    })
    .await
}

async fn ask(from: [u8; 4], to: [u8; 4], port: u16, asked: &[u8]) -> Message {
    answer_within(LONG, from, to, port, asked).await.unwrap()
}

async fn is_ignored(from: [u8; 4], port: u16, asked: &[u8]) -> bool {
    answer_within(MOMENT, from, [127, 0, 0, 1], port, asked).await.is_none()
}

async fn answer_within(
    patience: Duration,
    from: [u8; 4],
    to: [u8; 4],
    port: u16,
    asked: &[u8],
) -> Option<Message> {
    let socket = UdpSocket::bind((IpAddr::from(from), 0)).await.unwrap();
    // A connected socket takes nothing that comes from another address than it sent to.
    socket.connect((IpAddr::from(to), port)).await.unwrap();
    socket.send(asked).await.unwrap();
    let mut buffer = [0; 4096];
    let length = timeout(patience, socket.recv(&mut buffer)).await.ok()?.unwrap();
    Some(Message::from_vec(&buffer[..length]).unwrap())
}

#[tokio::test]
async fn a_packet_is_answered_from_the_address_it_was_sent_to() {
    let served = served(world().await, Ipv4Addr::UNSPECIFIED.into()).await;
    let asked = question("a.example", RecordType::A).to_vec().unwrap();
    for to in [[127, 0, 0, 1], [127, 0, 0, 9], [127, 1, 2, 3]] {
        let answer = ask([127, 0, 0, 1], to, served.port, &asked).await;
        assert_eq!(shown(&answer), ["a.example. 60 A 192.0.2.1"]);
    }
}

#[tokio::test]
async fn a_socket_for_both_kinds_of_addresses_knows_who_asks() {
    let served = served(world().await, Ipv6Addr::UNSPECIFIED.into()).await;
    let asked = question("a.example", RecordType::A).to_vec().unwrap();
    ask([127, 0, 0, 1], [127, 0, 0, 9], served.port, &asked).await;
    enter(&served.world.book, 2, Ipv6Addr::LOCALHOST.into(), NetworkPolicy::public());
    let socket = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).await.unwrap();
    socket.connect((Ipv6Addr::LOCALHOST, served.port)).await.unwrap();
    socket.send(&asked).await.unwrap();
    let mut buffer = [0; 4096];
    let length = timeout(LONG, socket.recv(&mut buffer)).await.unwrap().unwrap();
    assert_eq!(Message::from_vec(&buffer[..length]).unwrap().answers.len(), 1);
}

#[tokio::test]
async fn each_sandbox_is_judged_by_its_own_policy_and_strangers_are_ignored() {
    let served = served(world().await, Ipv4Addr::UNSPECIFIED.into()).await;
    let closed = policy(NetworkMode::Allow, &[], &[]);
    let second = enter(&served.world.book, 2, [127, 0, 0, 2].into(), closed);
    let asked = question("a.example", RecordType::A).to_vec().unwrap();
    let of = async |from| ask(from, [127, 0, 0, 1], served.port, &asked).await.answers[0].data.to_string();
    assert_eq!(of([127, 0, 0, 1]).await, "192.0.2.1");
    assert_eq!(of([127, 0, 0, 2]).await, "169.254.77.1");
    assert!(is_ignored([127, 0, 0, 3], served.port, &asked).await);
    assert!(served.world.pinned("a.example", "192.0.2.1"));
    assert!(!second.pins.holds(&host("a.example"), [192, 0, 2, 1].into()));
    served.world.book.leave(&second.id);
    assert!(is_ignored([127, 0, 0, 2], served.port, &asked).await);
    let mut stranger = stream_from([127, 0, 0, 3], served.port).await;
    let mut byte = [0];
    assert_eq!(timeout(LONG, stranger.read(&mut byte)).await.unwrap().unwrap_or(0), 0, "closed at once");
}

async fn stream_from(from: [u8; 4], port: u16) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap()
}

async fn read(stream: &mut TcpStream) -> Option<Message> {
    let length = timeout(LONG, stream.read_u16()).await.unwrap().ok()?;
    let mut bytes = vec![0; length.into()];
    stream.read_exact(&mut bytes).await.unwrap();
    Some(Message::from_vec(&bytes).unwrap())
}

#[tokio::test]
async fn a_stream_carries_one_question_after_another() {
    let served = served(world().await, Ipv4Addr::UNSPECIFIED.into()).await;
    let packet = question("many.example", RecordType::A).to_vec().unwrap();
    let short = ask([127, 0, 0, 1], [127, 0, 0, 1], served.port, &packet).await;
    assert!(short.truncation);
    let mut stream = stream_from([127, 0, 0, 1], served.port).await;
    let both = [framed(&packet), framed(&question("a.example", RecordType::AAAA).to_vec().unwrap())].concat();
    // In pieces, and the second before the first is answered.
    for piece in both.chunks(7) {
        stream.write_all(piece).await.unwrap();
        stream.flush().await.unwrap();
    }
    assert_eq!(read(&mut stream).await.unwrap().answers.len(), 60);
    assert_eq!(read(&mut stream).await.unwrap().answers.len(), 0);
    stream.write_all(&[0xff, 0xff]).await.unwrap();
    assert_eq!(read(&mut stream).await, None, "nobody asks that long a question");
}

#[tokio::test]
async fn a_sandbox_has_few_streams_at_a_time_and_none_after_it_left() {
    let served = served(world().await, Ipv4Addr::UNSPECIFIED.into()).await;
    let asked = framed(&question("a.example", RecordType::A).to_vec().unwrap());
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = stream_from([127, 0, 0, 1], served.port).await;
        // Who is turned away may learn it here.
        drop(stream.write_all(&asked).await);
        streams.push(stream);
    }
    let mut answered = Vec::new();
    for mut stream in streams {
        if read(&mut stream).await.is_some() {
            answered.push(stream);
        }
    }
    assert_eq!(answered.len(), 8);
    served.world.book.leave(&served.world.guest.id);
    let mut stream = answered.remove(0);
    stream.write_all(&asked).await.unwrap();
    assert_eq!(read(&mut stream).await, None);
}

#[tokio::test]
async fn a_packet_that_is_too_long_is_dropped_and_the_next_is_answered() {
    let served = served(world().await, Ipv4Addr::UNSPECIFIED.into()).await;
    let asked = question("a.example", RecordType::A).to_vec().unwrap();
    let long = [asked.clone(), vec![0; 8000]].concat();
    assert!(is_ignored([127, 0, 0, 1], served.port, &long).await);
    ask([127, 0, 0, 1], [127, 0, 0, 1], served.port, &asked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_that_floods_is_slowed_and_others_are_not() {
    let served = served(world().await, Ipv4Addr::UNSPECIFIED.into()).await;
    enter(&served.world.book, 2, [127, 0, 0, 2].into(), NetworkPolicy::public());
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    socket.connect(("127.0.0.1", served.port)).await.unwrap();
    let asked = question("a.example", RecordType::A).to_vec().unwrap();
    let start = Instant::now();
    let flood = tokio::spawn({
        let (socket, asked) = (Arc::clone(&socket), asked.clone());
        async move {
            let mut sent = 0;
            while sent < 1500 || start.elapsed() < Duration::from_secs(2) {
                // The socket may be full: that is the flood.
                sent += usize::from(socket.try_send(&asked).is_ok());
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
        }
    });
    let count = tokio::spawn(async move {
        let (mut answers, mut buffer) = (0_u32, [0; 4096]);
        while let Ok(Ok(_)) = timeout(Duration::from_secs(3), socket.recv(&mut buffer)).await {
            answers += 1;
        }
        answers
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The flood of another is nothing to it.
    ask([127, 0, 0, 2], [127, 0, 0, 1], served.port, &asked).await;
    flood.await.unwrap();
    let answers = count.await.unwrap();
    // A burst of 400, 200 in each second, and a second's worth that waits.
    let most = 400.0 + 200.0 * start.elapsed().as_secs_f64() + 220.0;
    assert!(answers >= 400 && f64::from(answers) <= most, "{answers} answers, and at most {most}");
}
