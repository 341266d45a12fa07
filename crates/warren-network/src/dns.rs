//! Answers sandboxes' questions about names.
//!
//! ```text
//!   question ── budget ── plan ────► refused, or answered here: denied, asked about, localhost
//!                           │
//!                           └ allowed ──► upstream ── sift ── pins ──► answer
//! ```
//!
//! - A name is judged as it was asked, in its one form ([`warren_core::HostName`]). What no policy
//!   allows is not asked of anybody, so no name carries data out. What is no host name is asked of
//!   nobody in any mode; the root only where all is open.
//! - A name that is denied, or that somebody has yet to be asked about, has the gateway's address
//!   for a second. The connection that follows reaches the egress proxy, which explains or asks.
//! - Of a server's answer, only what answers the question is passed on: the wanted records of the
//!   name and of its aliases, and if there are none, why. Closed addresses are taken out. Types
//!   whose records could lead around the proxies (HTTPS, SVCB) have none, and those that are
//!   unknown neither.
//! - All addresses that are passed on are pinned to the asked name first, and never to an alias.
//! - A question goes out in our own words: nothing but the name, the type and the three flags of
//!   DNSSEC is the sandbox's.

mod exchange;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod listen;
mod plan;
mod question;
mod servers;
mod sift;
mod sys;
mod upstream;

use std::net::IpAddr;
use std::sync::Arc;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{Name, RData, Record};
use warren_core::HostName;
use warren_core::network::{Decision, Why};

pub(crate) use self::listen::serve;
pub(crate) use self::servers::Servers;
pub(crate) use self::upstream::{Resolved, Upstream, UpstreamError};

use self::plan::{Plan, Step};
use self::question::{Carrier, Malformed, Question, wire_name};
use self::sift::Sifted;
use crate::book::{Book, Guest};
use crate::report::{Incident, Reporter};

/// Answers that we make up ourselves may change soon: when somebody has decided, or has changed the
/// policy.
const OWN_TTL: u32 = 1;

/// Answers every sandbox's questions.
#[derive(Debug)]
pub(crate) struct Names {
    book: Arc<Book>,
    upstream: Arc<Upstream>,
    reporter: Arc<Reporter>,
}

impl Names {
    pub(crate) fn new(book: Arc<Book>, upstream: Arc<Upstream>, reporter: Arc<Reporter>) -> Self {
        Self { book, upstream, reporter }
    }

    /// The answer to what a sandbox sent; `None` if it is none of a question.
    async fn respond(&self, guest: &Arc<Guest>, bytes: &[u8], carrier: Carrier) -> Option<Vec<u8>> {
        let question = match Question::read(bytes) {
            Ok(question) => question,
            Err(Malformed::Unanswerable) => return None,
            Err(Malformed::Answered(reply)) => return reply.to_vec().ok(),
        };
        let Plan { step, incident } = Plan::of(&self.book, guest, &question.query);
        if let Some(incident) = incident {
            self.reporter.note(guest, incident);
        }
        if step == Step::Address(crate::place::GATEWAY.into())
            && let Some(name) = question::host_name(&question.query.name)
        {
            guest.pins.stand_in(&name);
        }
        let reply = match step {
            Step::Ask(name) => self.forward(guest, &question, name.as_ref()).await,
            here => answer_here(&question, &here),
        };
        question.encode(&reply, carrier)
    }

    async fn forward(&self, guest: &Arc<Guest>, question: &Question, name: Option<&HostName>) -> Message {
        let answer = match self.ask(guest, question, name).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(sandbox.id = %guest.id, error = &error as &dyn std::error::Error, "no answer");
                return question.reply(ResponseCode::ServFail);
            }
        };
        let sifted = Sifted::of(&question.query, answer, question.wants());
        let sifted = sifted.without_closed(&question.query, self.book.exceptions());
        match name {
            Some(name) => self.hand_over(guest, question, name, sifted),
            None => reply_with(question, sifted),
        }
    }

    async fn ask(
        &self,
        guest: &Guest,
        question: &Question,
        name: Option<&HostName>,
    ) -> Result<Message, UpstreamError> {
        let name = name.map_or_else(|| Some(Name::root()), wire_name).ok_or(UpstreamError::NoSuchName)?;
        let _place = guest.questions.asked.acquire().await.map_err(|_| UpstreamError::Busy)?;
        let query = Query::query(name, question.query.query_type);
        self.upstream.ask(&query, question.wants()).await
    }

    /// Pins what the sandbox is about to hear.
    fn hand_over(&self, guest: &Arc<Guest>, question: &Question, name: &HostName, sifted: Sifted) -> Message {
        if let Some(why) = denied_alias(&self.book, guest, &sifted.aliases()) {
            self.reporter.note(guest, plan::denied(name, &why));
            return answer_here(question, &plan::instead(name, question.query.query_type));
        }
        if let Some((address, range)) = sifted.removed {
            let incident = plan::denied(name, &Why::Closed(range));
            self.reporter.note(guest, Incident { address: Some(address), ..incident });
        }
        guest.pins.pin(name, &sifted.addresses(), sifted.ttl());
        reply_with(question, sifted)
    }
}

/// Why a name may not be reached by another one that is its alias: a rule denies it. A name that is
/// only not allowed may, since a rule that allows the other allows its aliases.
pub(crate) fn denied_alias(book: &Book, guest: &Guest, aliases: &[HostName]) -> Option<Why> {
    aliases.iter().find_map(|alias| match plan::decide(book, guest, alias) {
        Decision::Denied(why @ Why::Deny(_)) => Some(why),
        Decision::Denied(_) | Decision::Allowed(_) | Decision::Ask => None,
    })
}

fn answer_here(question: &Question, step: &Step) -> Message {
    let mut reply = question.reply(match step {
        Step::Address(_) | Step::Nothing => ResponseCode::NoError,
        Step::NoSuchName => ResponseCode::NXDomain,
        Step::Refuse => ResponseCode::Refused,
        Step::Ask(_) => ResponseCode::ServFail,
    });
    if let Step::Address(address) = step {
        let data = match address {
            IpAddr::V4(address) => RData::A(A(*address)),
            IpAddr::V6(address) => RData::AAAA(AAAA(*address)),
        };
        reply.add_answer(Record::from_rdata(question.query.name.clone(), OWN_TTL, data));
    }
    reply
}

fn reply_with(question: &Question, sifted: Sifted) -> Message {
    let mut reply = question.reply(sifted.code);
    reply.metadata.authentic_data = sifted.verified;
    reply.answers = sifted.answers;
    reply.authorities = sifted.authorities;
    reply
}

#[cfg(test)]
mod tests;
