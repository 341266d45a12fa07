use std::sync::Arc;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::super::judge::Basis;
use super::super::rewound::Rewound;
use super::super::splice::{reset, splice, write_all};
use super::super::visit::Visit;
use crate::heads::Strict;

/// A connection that speaks HTTP no longer, and what was read of it too early.
struct Freed {
    stream: TcpStream,
    first: Vec<u8>,
}

/// Passes everything on between two connections whose servers agreed to speak something else.
pub(super) async fn run(visit: Arc<Visit>, ours: OnUpgrade, theirs: OnUpgrade, basis: Basis) {
    let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) else { return };
    let (Some(client), Some(server)) = (freed_client(ours), freed_server(theirs)) else { return };
    let passing = async {
        write_all(&server.stream, &client.first).await?;
        write_all(&client.stream, &server.first).await?;
        splice(&client.stream, &server.stream).await
    };
    let is_whole = tokio::select! {
        passed = passing => passed.is_ok(),
        () = visit.until_cut(basis) => false,
    };
    if !is_whole {
        reset(client.stream);
        reset(server.stream);
    }
}

fn freed_client(upgraded: Upgraded) -> Option<Freed> {
    let parts = upgraded.downcast::<TokioIo<Strict<Rewound>>>().ok()?;
    let (unread, stream) = parts.io.into_inner().into_inner().into_parts();
    Some(Freed { stream, first: [parts.read_buf, unread].concat() })
}

fn freed_server(upgraded: Upgraded) -> Option<Freed> {
    let parts = upgraded.downcast::<TokioIo<TcpStream>>().ok()?;
    Some(Freed { stream: parts.io.into_inner(), first: parts.read_buf.to_vec() })
}
