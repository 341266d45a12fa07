use std::net::IpAddr;
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use warren_core::HostName;
use warren_core::network::{ClosedRange, NetworkRule, closed};

use super::question::{Wants, host_name};
use crate::pins::MOST_TTL;

/// Aliases that are followed from the name that was asked for to its addresses.
const MOST_ALIASES: usize = 16;
/// Records of the wanted type that are passed on.
const MOST_RECORDS: usize = 64;

/// The safe part of a server's answer: only records that answer the question, and no closed
/// address.
#[derive(Debug)]
pub(super) struct Sifted {
    pub(super) code: ResponseCode,
    pub(super) answers: Vec<Record>,
    pub(super) authorities: Vec<Record>,
    /// The server has verified all of it, and all of it is there.
    pub(super) verified: bool,
    /// The first address that was taken out.
    pub(super) removed: Option<(IpAddr, ClosedRange)>,
}

impl Sifted {
    /// The answer to a question, whatever a server has sent. Takes nothing from it but the answer
    /// and the reason of its absence: what servers add of their own accord could hold anything.
    pub(super) fn of(query: &Query, answer: Message, wants: Wants) -> Self {
        let (code, verified) = (answer.response_code, answer.authentic_data);
        let mut sifted = Self { code, answers: Vec::new(), authorities: Vec::new(), verified, removed: None };
        if !matches!(code, ResponseCode::NoError | ResponseCode::NXDomain) {
            sifted.code = ResponseCode::ServFail;
            return sifted;
        }
        let chain = Chain::of(query, &answer.answers);
        let sent = answer.answers.len();
        let own = answer.answers.into_iter().filter(|record| chain.holds(record, query, wants));
        sifted.answers = own.map(|record| trimmed(record, query)).collect();
        sifted.thin_out(query.query_type);
        sifted.verified &= sifted.answers.len() == sent;
        if !sifted.has(query.query_type) {
            let reasons = answer.authorities.into_iter().filter(|record| is_reason(record, wants));
            sifted.authorities = reasons.take(MOST_RECORDS).map(|record| trimmed(record, query)).collect();
        }
        sifted
    }

    /// Without closed addresses. If there were no others, there is no such name.
    pub(super) fn without_closed(mut self, query: &Query, exceptions: &[NetworkRule]) -> Self {
        let removed = &mut self.removed;
        self.answers.retain(|record| {
            let Some(address) = address(&record.data) else { return true };
            let range = closed_at_every_port(address, exceptions);
            *removed = removed.or(range.map(|range| (address, range)));
            range.is_none()
        });
        if self.removed.is_some() {
            self.verified = false;
        }
        if self.removed.is_some() && !self.has(query.query_type) {
            self.answers.clear();
            self.code = ResponseCode::NXDomain;
        }
        self
    }

    /// The addresses of the answer.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.answers.iter().filter_map(|record| address(&record.data)).collect()
    }

    /// How long the answer holds: as long as each of its records.
    pub(super) fn ttl(&self) -> Duration {
        let least = self.answers.iter().map(|record| record.ttl).min();
        Duration::from_secs(least.unwrap_or(0).into())
    }

    /// The names that the asked one turned out to be an alias of.
    pub(super) fn aliases(&self) -> Vec<HostName> {
        let targets = self.answers.iter().filter_map(|record| alias(&record.data));
        targets.filter_map(host_name).collect()
    }

    fn has(&self, kind: RecordType) -> bool {
        self.answers.iter().any(|record| record.record_type() == kind)
    }

    fn thin_out(&mut self, wanted: RecordType) {
        let mut seen = 0;
        self.answers.retain(|record| {
            seen += usize::from(record.record_type() == wanted);
            record.record_type() != wanted || seen <= MOST_RECORDS
        });
    }
}

/// The asked name, and what it is an alias of, in turn.
struct Chain(Vec<Name>);

impl Chain {
    fn of(query: &Query, answers: &[Record]) -> Self {
        let mut names = vec![query.name.clone()];
        let next = |name: &Name| {
            let own =
                answers.iter().filter(|record| record.dns_class == DNSClass::IN && record.name == *name);
            own.filter_map(|record| alias(&record.data)).next().cloned()
        };
        let mut last = next(&query.name).filter(|_| query.query_type != RecordType::CNAME);
        while let Some(name) = last.filter(|name| names.len() <= MOST_ALIASES && !names.contains(name)) {
            last = next(&name);
            names.push(name);
        }
        Self(names)
    }

    /// True if a record belongs to the answer: it is of the wanted type, or leads from one name to
    /// another.
    fn holds(&self, record: &Record, query: &Query, wants: Wants) -> bool {
        let kind = record.record_type();
        let fits = kind == query.query_type
            || kind == RecordType::CNAME
            || (wants.signatures && kind == RecordType::RRSIG);
        fits && record.dns_class == DNSClass::IN && self.0.contains(&record.name)
    }
}

/// True if a record says why there is no answer, and for how long there will be none.
fn is_reason(record: &Record, wants: Wants) -> bool {
    let proof = [RecordType::NSEC, RecordType::NSEC3, RecordType::RRSIG];
    let kind = record.record_type();
    let fits = kind == RecordType::SOA || (wants.signatures && proof.contains(&kind));
    fits && record.dns_class == DNSClass::IN
}

/// Held no longer than its pin, and under the name as the client wrote it.
fn trimmed(mut record: Record, query: &Query) -> Record {
    record.ttl = record.ttl.min(u32::try_from(MOST_TTL.as_secs()).unwrap_or(0));
    if record.name == query.name {
        record.name = query.name.clone();
    }
    record
}

fn address(data: &RData) -> Option<IpAddr> {
    match data {
        RData::A(address) => Some(address.0.into()),
        RData::AAAA(address) => Some(address.0.into()),
        _ => None,
    }
}

fn alias(data: &RData) -> Option<&Name> {
    match data {
        RData::CNAME(target) => Some(&target.0),
        _ => None,
    }
}

/// The range that closes an address. Nobody knows yet which port is meant: one that is excepted is
/// enough to tell the address.
fn closed_at_every_port(address: IpAddr, exceptions: &[NetworkRule]) -> Option<ClosedRange> {
    if exceptions.iter().any(|rule| rule.holds(address)) { None } else { closed(address, 0, &[]) }
}
