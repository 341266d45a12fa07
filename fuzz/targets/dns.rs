//! A sandbox's questions about names, and what servers answer.
//!
//! An input is a byte that says how it is asked, the length of the question in a byte, the question
//! and the server's answer. What the sandbox hears fits what it asked for, leads to no closed
//! address, and is pinned.

#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::op::{Message, MessageType};
use hickory_proto::rr::{RData, RecordType};
use libfuzzer_sys::fuzz_target;
use warren_core::NetworkMode;
use warren_core::network::{NetworkPolicy, closed};
use warren_network::fuzzing::{Answered, answer};

const MOST_PACKET: usize = 1232;
const MOST_TTL: u32 = 3600;
/// The addresses that the proxy answers with by itself.
const OWN: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 77, 1)),
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

fuzz_target!(|data: &[u8]| {
    let [how, length, rest @ ..] = data else { return };
    let (question, upstream) = rest.split_at(usize::from(*length).min(rest.len()));
    let (over_stream, strictly) = (how & 8 != 0, how & 16 != 0);
    let policy = policy(how % 8);
    let nothing_is_open = policy.mode == NetworkMode::None;
    let Some(answered) = answer(question, upstream, policy, over_stream, strictly) else { return };
    assert!(answered.bytes.len() <= if over_stream { usize::from(u16::MAX) } else { MOST_PACKET });
    assert!(!nothing_is_open || answered.asked.is_none(), "{:?} left the machine", answered.asked);
    fits(question, &answered);
    for address in raw_addresses(&answered.bytes).expect("what we write is well formed") {
        match answered.asked {
            None => assert!(OWN.contains(&address), "{address} is nobody's answer"),
            // A name whose alias is denied is answered with the gateway.
            Some(_) if address == OWN[0] => {}
            Some(_) => {
                assert!(closed(address, 0, &[]).is_none(), "{address} is closed");
                assert!(answered.is_pinned(address), "{address} is not pinned");
            }
        }
    }
});

fn policy(number: u8) -> NetworkPolicy {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("a rule")).collect();
    match number {
        0 => NetworkPolicy::none(),
        1 => NetworkPolicy::of(NetworkMode::Learn),
        2 => NetworkPolicy {
            allow: rules(&["*.example"]),
            deny: rules(&["b.example"]),
            ..NetworkPolicy::of(NetworkMode::Allow)
        },
        3 => NetworkPolicy { allow: rules(&["c.example"]), ..NetworkPolicy::of(NetworkMode::Ask) },
        _ => NetworkPolicy::public(),
    }
}

/// Checks that an answer belongs to its question, as another reader of the protocol sees it.
fn fits(question: &[u8], answered: &Answered) {
    let heard = Message::from_vec(&answered.bytes).expect("what we write can be read");
    assert_eq!(question[..2], heard.id.to_be_bytes());
    assert_eq!(heard.message_type, MessageType::Response);
    assert!(heard.additionals.is_empty());
    let Ok(asked) = Message::from_vec(question) else { return };
    if heard.queries.is_empty() {
        return assert!(heard.answers.is_empty() && heard.authorities.is_empty());
    }
    assert_eq!(heard.queries, asked.queries);
    let wanted = asked.queries[0].query_type;
    for record in &heard.answers {
        let kind = record.record_type();
        assert!(
            kind == wanted || [RecordType::CNAME, RecordType::RRSIG].contains(&kind),
            "{kind} for {wanted}"
        );
        assert!(!matches!(record.data, RData::HTTPS(_) | RData::SVCB(_)));
        assert!(record.ttl <= MOST_TTL);
    }
    let reasons = [RecordType::SOA, RecordType::NSEC, RecordType::NSEC3, RecordType::RRSIG];
    assert!(heard.authorities.iter().all(|record| reasons.contains(&record.record_type())));
}

/// Every address in a message, read without the library that wrote it.
fn raw_addresses(bytes: &[u8]) -> Option<Vec<IpAddr>> {
    let number = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let (mut at, mut found) = (12, Vec::new());
    for _ in 0..number(4)? {
        at = after_name(bytes, at)? + 4;
    }
    for _ in 0..usize::from(number(6)?) + usize::from(number(8)?) + usize::from(number(10)?) {
        at = after_name(bytes, at)?;
        let (kind, length) = (number(at)?, usize::from(number(at + 8)?));
        let data = bytes.get(at + 10..at + 10 + length)?;
        match kind {
            1 => found.push(IpAddr::from(<[u8; 4]>::try_from(data).ok()?)),
            28 => found.push(IpAddr::from(<[u8; 16]>::try_from(data).ok()?)),
            _ => {}
        }
        at += 10 + length;
    }
    (at == bytes.len()).then_some(found)
}

fn after_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match usize::from(*bytes.get(at)?) {
            0 => return Some(at + 1),
            pointer if pointer >= 192 => return Some(at + 2),
            label => at += 1 + label,
        }
    }
}
