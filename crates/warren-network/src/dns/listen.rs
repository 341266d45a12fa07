use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};

use super::Names;
use super::exchange::framed;
use super::question::Carrier;
use super::sys::{self, Packet};
use crate::book::Guest;

/// A question with every option that clients send fits well.
const MOST_QUESTION_BYTES: usize = 4096;
/// How long a connection may be silent, and how long its bytes may take.
const IDLE: Duration = Duration::from_secs(10);
/// After a failure of the machine, such as no descriptor to be had.
const BREATH: Duration = Duration::from_millis(100);

/// Answers what arrives on two sockets, until it is dropped. A packet's source says which sandbox
/// asks: the kernel has made sure of it. What comes from anybody else is not answered.
pub(crate) async fn serve(
    packets: std::net::UdpSocket,
    streams: std::net::TcpListener,
    names: Arc<Names>,
) -> io::Result<()> {
    packets.set_nonblocking(true)?;
    streams.set_nonblocking(true)?;
    sys::ask_for_destinations(packets.as_fd(), packets.local_addr()?.is_ipv4())?;
    let packets = Arc::new(UdpSocket::from_std(packets)?);
    let streams = TcpListener::from_std(streams)?;
    tokio::join!(serve_packets(packets, Arc::clone(&names)), serve_streams(streams, names));
    Ok(())
}

async fn serve_packets(socket: Arc<UdpSocket>, names: Arc<Names>) {
    let mut buffer = vec![0; MOST_QUESTION_BYTES];
    loop {
        let received =
            socket.async_io(Interest::READABLE, || sys::receive(socket.as_fd(), &mut buffer)).await;
        let packet = match received {
            Ok(packet) => packet,
            Err(error) => {
                tracing::warn!(%error, "cannot receive questions");
                sleep(BREATH).await;
                continue;
            }
        };
        let Some((guest, place, wait)) = admit(&names, packet.from) else { continue };
        let (socket, names) = (Arc::clone(&socket), Arc::clone(&names));
        let question = buffer[..packet.length].to_vec();
        tokio::spawn(async move {
            let _place = place;
            pause(wait).await;
            if let Some(answer) = names.respond(&guest, &question, Carrier::Packet).await {
                send(&socket, &answer, &packet).await;
            }
        });
    }
}

/// The sandbox that asks, and a place in the queue with the time that it may wait.
fn admit(names: &Names, from: SocketAddr) -> Option<(Arc<Guest>, OwnedSemaphorePermit, Duration)> {
    let guest = guest_at(names, from)?;
    let place = Arc::clone(&guest.questions.waiting).try_acquire_owned().ok()?;
    let wait = guest.questions.admit(Instant::now())?;
    Some((guest, place, wait))
}

/// Even the shortest sleep lasts until the clock's next tick.
async fn pause(wait: Duration) {
    if !wait.is_zero() {
        sleep(wait).await;
    }
}

fn guest_at(names: &Names, from: SocketAddr) -> Option<Arc<Guest>> {
    let address: IpAddr = from.ip().to_canonical();
    names.book.by_address(address)
}

/// From the address that was asked, and over the same link: otherwise it would not be known as the
/// answer.
async fn send(socket: &UdpSocket, answer: &[u8], question: &Packet) {
    let sent = socket.async_io(Interest::WRITABLE, || sys::send(socket.as_fd(), answer, question)).await;
    if let Err(error) = sent {
        tracing::debug!(to = %question.from, %error, "cannot send an answer");
    }
}

async fn serve_streams(listener: TcpListener, names: Arc<Names>) {
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections with questions");
                sleep(BREATH).await;
                continue;
            }
        };
        let Some(guest) = guest_at(&names, from) else { continue };
        let Ok(place) = Arc::clone(&guest.questions.connections).try_acquire_owned() else { continue };
        drop(guest);
        let names = Arc::clone(&names);
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = converse(stream, from, &names).await {
                tracing::trace!(%from, %error, "a connection with questions ended");
            }
        });
    }
}

/// One question after another, each from the sandbox that has the address then.
async fn converse(mut stream: TcpStream, from: SocketAddr, names: &Names) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let Some(question) = timeout(IDLE, read_question(&mut stream)).await?? else { return Ok(()) };
        let Some((guest, _place, wait)) = admit(names, from) else { return Ok(()) };
        pause(wait).await;
        let Some(answer) = names.respond(&guest, &question, Carrier::Stream).await else { return Ok(()) };
        timeout(IDLE, stream.write_all(&framed(&answer))).await??;
    }
}

async fn read_question(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let length = usize::from(stream.read_u16().await?);
    if length > MOST_QUESTION_BYTES {
        return Ok(None);
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(Some(bytes))
}
