//! Connections that a sandbox in mode `ask` waits for, until somebody answers.

use std::collections::BTreeMap;

use warren_core::network::{Decision, Destination, Exceptions, Protocol, Wish};
use warren_core::{HostName, NetworkEntry, NetworkPolicy, NetworkRule};

use super::{Moment, NetworkAsk};

/// A question that was not repeated for this long is forgotten. Longer than any connection waits: a
/// late answer still helps the next try.
const KEPT_MS: u64 = 15 * 60_000;
/// More than these at once are not taken note of; the sandbox is told no.
const MOST: usize = 64;

/// The open questions, by number.
#[derive(Debug)]
pub(crate) struct Asks {
    pub(crate) waiting: BTreeMap<u64, NetworkAsk>,
    last: u64,
}

impl Asks {
    /// Numbers are above those of every earlier start, so that a late answer meets no other ask.
    pub(crate) fn since(started_unix_ms: u64) -> Self {
        Self { waiting: BTreeMap::new(), last: (started_unix_ms / 1000 % 100_000) * 1000 }
    }

    /// Takes note of a wish. Says whether it is a new one.
    pub(crate) fn note(&mut self, entry: &NetworkEntry, now: Moment) -> bool {
        self.expire(now);
        let Some(rule) = rule_of(entry) else { return false };
        let expires_unix_ms = now.unix_ms.saturating_add(KEPT_MS);
        if let Some(known) = self.waiting.values_mut().find(|ask| ask.rule == rule) {
            known.entry.count = known.entry.count.saturating_add(entry.count);
            known.expires_unix_ms = expires_unix_ms;
            return false;
        }
        // The question about a name was only the beginning of this.
        self.waiting.retain(|_, ask| ask.entry.protocol != Protocol::Dns || !ask.rule.covers(&rule));
        if self.waiting.len() >= MOST {
            return false;
        }
        self.last += 1;
        let entry = entry.clone();
        let ask = NetworkAsk { number: self.last, asked_unix_ms: now.unix_ms, expires_unix_ms, rule, entry };
        self.waiting.insert(self.last, ask);
        true
    }

    pub(crate) fn expire(&mut self, now: Moment) {
        self.waiting.retain(|_, ask| now.unix_ms < ask.expires_unix_ms);
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&NetworkEntry) -> bool) {
        self.waiting.retain(|_, ask| keep(&ask.entry));
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn all(&self) -> Vec<NetworkAsk> {
        self.waiting.values().cloned().collect()
    }
}

/// The rule that an answer allows or denies: this name or address at this port, and nothing else.
fn rule_of(entry: &NetworkEntry) -> Option<NetworkRule> {
    match Destination::of(entry) {
        Some(destination) => Some(destination.rule()),
        None => entry.host.as_deref()?.parse().ok(),
    }
}

/// True if a policy leaves this for somebody to answer.
pub(crate) fn is_open(
    policy: &NetworkPolicy,
    entry: &NetworkEntry,
    exceptions: &Exceptions,
    now_unix_ms: u64,
) -> bool {
    let name = entry.host.as_deref().and_then(|host| host.parse::<HostName>().ok());
    // A name that nobody has allowed yet was answered with no address of its own.
    let address = entry.address.filter(|_| name.is_none());
    let wish = Wish { protocol: entry.protocol, name: name.as_ref(), address, port: entry.port };
    policy.decide(&wish, exceptions, now_unix_ms) == Decision::Ask
}

#[cfg(test)]
mod tests {
    use warren_core::{NetworkMode, NetworkVerdict};

    use super::*;

    fn asked(protocol: Protocol, host: &str, port: u16) -> NetworkEntry {
        NetworkEntry {
            verdict: NetworkVerdict::Asked,
            protocol,
            host: Some(host.to_owned()),
            address: Some("169.254.77.1".parse().unwrap()),
            port,
            rule: String::new(),
            process: None,
            count: 1,
        }
    }

    fn at(unix_ms: u64) -> Moment {
        Moment { boot_ms: unix_ms, unix_ms }
    }

    fn rules(asks: &Asks) -> Vec<String> {
        asks.all().iter().map(|ask| ask.rule.to_string()).collect()
    }

    #[test]
    fn the_same_wish_is_one_ask_and_a_connection_takes_the_place_of_its_question() {
        let mut asks = Asks::since(0);
        assert!(asks.note(&asked(Protocol::Dns, "A.example", 0), at(0)));
        assert_eq!(rules(&asks), ["a.example"]);
        assert!(asks.note(&asked(Protocol::Tcp, "a.example", 443), at(1)));
        assert!(!asks.note(&asked(Protocol::Tcp, "a.example.", 443), at(2)));
        assert_eq!(rules(&asks), ["a.example:443"]);
        assert_eq!(asks.all()[0].entry.count, 2);
        let nowhere = NetworkEntry { address: None, ..asked(Protocol::Tcp, "not a host", 443) };
        assert!(!asks.note(&nowhere, at(3)), "nobody can answer that");
    }

    #[test]
    fn a_flood_of_wishes_is_bounded_and_old_ones_are_forgotten() {
        let mut asks = Asks::since(0);
        for number in 0..1000 {
            asks.note(&asked(Protocol::Tcp, &format!("h{number}.example"), 443), at(number));
        }
        assert_eq!(asks.len(), MOST);
        asks.expire(at(KEPT_MS));
        assert_eq!(asks.len(), MOST - 1);
    }

    #[test]
    fn a_policy_that_has_an_answer_leaves_nothing_to_ask() {
        let mut asks = Asks::since(0);
        asks.note(&asked(Protocol::Tcp, "a.example", 443), at(0));
        asks.note(&asked(Protocol::Tcp, "b.example", 443), at(0));
        let mut policy = NetworkPolicy::of(NetworkMode::Ask);
        policy.allow = vec!["a.example".parse().unwrap()];
        asks.retain(|entry| is_open(&policy, entry, &[], 0));
        assert_eq!(rules(&asks), ["b.example:443"]);
        asks.retain(|entry| is_open(&NetworkPolicy::public(), entry, &[], 0));
        assert_eq!(asks.len(), 0);
    }
}
