use std::sync::Arc;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::Name;
use warren_core::network::NetworkPolicy;
use warren_core::{HostName, Owner, SandboxId};

use super::exchange::answer_to;
use super::plan::{Plan, Step};
use super::question::{Carrier, Malformed, Question, read_message, wire_name};
use super::servers::Servers;
use super::sift::Sifted;
use super::upstream::Upstream;
use super::{Names, answer_here, reply_with};
use crate::book::{Book, Guest};
use crate::report::Reporter;

/// The answer that a sandbox gets.
#[derive(Debug)]
pub struct Answered {
    pub bytes: Vec<u8>,
    /// The name that a server was asked for; empty for the root.
    pub asked: Option<String>,
    /// The guest and the name to which addresses of the answer are pinned.
    pins: Option<(Arc<Guest>, HostName)>,
}

impl Answered {
    pub fn is_pinned(&self, address: std::net::IpAddr) -> bool {
        self.pins.as_ref().is_some_and(|(guest, name)| guest.pins.holds(name, address))
    }
}

/// Answers a question as the proxy does when its server sends `upstream`. `strictly` has that
/// checked against what was asked; otherwise it is taken for an answer, as far as it can be read,
/// which leaves more to try.
pub fn answer(
    question: &[u8],
    upstream: &[u8],
    policy: NetworkPolicy,
    over_stream: bool,
    strictly: bool,
) -> Option<Answered> {
    let carrier = if over_stream { Carrier::Stream } else { Carrier::Packet };
    let question = match Question::read(question) {
        Ok(question) => question,
        Err(Malformed::Unanswerable) => return None,
        Err(Malformed::Answered(reply)) => {
            return Some(Answered { bytes: reply.to_vec().ok()?, asked: None, pins: None });
        }
    };
    let book = Arc::new(Book::new(Vec::new()));
    let id = SandboxId::from_random([1; 16]);
    let guest = book.enter(Guest::new(id, Owner::first(), vec![[192, 0, 2, 200].into()], &[policy]));
    let name = match Plan::of(&book, &guest, &question.query).step {
        Step::Ask(name) => name,
        here => {
            let bytes = question.encode(&answer_here(&question, &here), carrier)?;
            return Some(Answered { bytes, asked: None, pins: None });
        }
    };
    let heard = heard(&question, name.as_ref(), upstream, strictly)?;
    let sifted = Sifted::of(&question.query, heard, question.wants());
    let sifted = sifted.without_closed(&question.query, book.exceptions());
    let reporter = Arc::new(Reporter::new(Arc::clone(&book)));
    let names = Names::new(Arc::clone(&book), Arc::new(Upstream::new(Servers::new(&[]))), reporter);
    let reply = match &name {
        Some(name) => names.hand_over(&guest, &question, name, sifted),
        None => reply_with(&question, sifted),
    };
    let bytes = question.encode(&reply, carrier)?;
    let asked = Some(name.as_ref().map(ToString::to_string).unwrap_or_default());
    Some(Answered { bytes, asked, pins: name.map(|name| (guest, name)) })
}

fn heard(question: &Question, name: Option<&HostName>, upstream: &[u8], strictly: bool) -> Option<Message> {
    if !strictly {
        // An update may hold records without data, which no answer to a query does.
        let mut answer = read_message(upstream).ok().filter(|answer| answer.op_code == OpCode::Query)?;
        answer.metadata.response_code = ResponseCode::NoError;
        return Some(answer);
    }
    let id = upstream.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    let name = name.map_or_else(|| Some(Name::root()), wire_name)?;
    let mut request = Message::new(id, MessageType::Query, OpCode::Query);
    request.add_query(Query::query(name, question.query.query_type));
    answer_to(&request, upstream).ok()
}
