use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_proto::op::{Edns, Header, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::question::{PAYLOAD, Wants, read_message};

/// More than a server sends in a packet that was told how much is taken.
const PACKET_BYTES: usize = 4096;
/// Packets that are not the answer, after which a try is given up: somebody is guessing.
const MOST_STRANGERS: usize = 64;

/// Why one server gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeError {
    #[error("draw a random number")]
    Random(#[source] getrandom::Error),
    #[error("write the question")]
    Write(#[source] hickory_proto::ProtoError),
    #[error("talk in packets")]
    Packet(#[source] io::Error),
    #[error("talk over a connection")]
    Stream(#[source] io::Error),
    #[error("what comes back is no answer to the question")]
    Stranger,
    #[error("the answer cannot be read")]
    Unreadable,
}

/// How much of the protocol a server is trusted to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Extended,
    Plain,
}

/// Asks one server: in a packet, and over a connection if the answer does not fit one.
pub(super) async fn exchange(
    server: SocketAddr,
    query: &Query,
    wants: Wants,
) -> Result<Message, ExchangeError> {
    let answer = exchange_in(Dialect::Extended, server, query, wants).await?;
    // What servers say that have never heard of EDNS.
    let puzzled = matches!(answer.response_code, ResponseCode::FormErr | ResponseCode::NotImp);
    if puzzled && answer.edns.is_none() {
        return exchange_in(Dialect::Plain, server, query, wants).await;
    }
    Ok(answer)
}

async fn exchange_in(
    dialect: Dialect,
    server: SocketAddr,
    query: &Query,
    wants: Wants,
) -> Result<Message, ExchangeError> {
    let answer = over_packets(server, &request(dialect, query, wants)?).await?;
    if !answer.truncation {
        return Ok(answer);
    }
    over_stream(server, &request(dialect, query, wants)?).await
}

/// A question of our own making: nothing of it but the name, the type and three flags comes from a
/// sandbox.
fn request(dialect: Dialect, query: &Query, wants: Wants) -> Result<Message, ExchangeError> {
    let [low, high, ..] = getrandom::u32().map_err(ExchangeError::Random)?.to_ne_bytes();
    let mut request = Message::new(u16::from_ne_bytes([low, high]), MessageType::Query, OpCode::Query);
    request.metadata.recursion_desired = true;
    request.metadata.checking_disabled = wants.unchecked;
    request.metadata.authentic_data = wants.verdict;
    request.add_query(query.clone());
    if dialect == Dialect::Extended {
        let mut edns = Edns::new();
        edns.set_max_payload(PAYLOAD).set_dnssec_ok(wants.signatures);
        request.set_edns(edns);
    }
    Ok(request)
}

/// The socket is connected: the kernel drops what others send, and tells at once that nobody
/// listens there.
async fn over_packets(server: SocketAddr, request: &Message) -> Result<Message, ExchangeError> {
    let bytes = request.to_vec().map_err(ExchangeError::Write)?;
    let any =
        if server.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind::<SocketAddr>(any).await.map_err(ExchangeError::Packet)?;
    socket.connect(server).await.map_err(ExchangeError::Packet)?;
    socket.send(&bytes).await.map_err(ExchangeError::Packet)?;
    let mut buffer = vec![0; PACKET_BYTES];
    for _ in 0..MOST_STRANGERS {
        let length = socket.recv(&mut buffer).await.map_err(ExchangeError::Packet)?;
        match answer_to(request, &buffer[..length]) {
            Err(ExchangeError::Stranger) => {}
            answer => return answer,
        }
    }
    Err(ExchangeError::Stranger)
}

async fn over_stream(server: SocketAddr, request: &Message) -> Result<Message, ExchangeError> {
    let bytes = request.to_vec().map_err(ExchangeError::Write)?;
    let mut stream = TcpStream::connect(server).await.map_err(ExchangeError::Stream)?;
    stream.set_nodelay(true).map_err(ExchangeError::Stream)?;
    stream.write_all(&framed(&bytes)).await.map_err(ExchangeError::Stream)?;
    let length = stream.read_u16().await.map_err(ExchangeError::Stream)?;
    let mut buffer = vec![0; length.into()];
    stream.read_exact(&mut buffer).await.map_err(ExchangeError::Stream)?;
    let answer = answer_to(request, &buffer)?;
    if answer.truncation { Err(ExchangeError::Unreadable) } else { Ok(answer) }
}

/// A message as streams carry it, with its length before it. One that is too long for that has
/// none.
pub(super) fn framed(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap_or(0);
    [&length.to_be_bytes(), bytes].concat()
}

/// The answer in the bytes, if they are one to this request. A server that fails may leave the
/// question out.
pub(super) fn answer_to(request: &Message, bytes: &[u8]) -> Result<Message, ExchangeError> {
    let mut decoder = BinDecoder::new(bytes);
    let header = Header::read(&mut decoder).map_err(|_| ExchangeError::Stranger)?;
    let ours = header.id == request.id
        && header.message_type == MessageType::Response
        && header.op_code == OpCode::Query
        && header.counts.queries <= 1;
    if !ours {
        return Err(ExchangeError::Stranger);
    }
    let queries = Message::read_queries(&mut decoder, header.counts.queries.into())
        .map_err(|_| ExchangeError::Stranger)?;
    let failed = !matches!(header.response_code, ResponseCode::NoError | ResponseCode::NXDomain);
    if queries != request.queries && !(queries.is_empty() && failed) {
        return Err(ExchangeError::Stranger);
    }
    // What is cut off may end anywhere, and is asked for again.
    if header.truncation {
        let mut answer = Message::response(header.id, header.op_code);
        answer.metadata = header.metadata;
        return Ok(answer);
    }
    read_message(bytes).map_err(|_| ExchangeError::Unreadable)
}
