//! What a sandbox in mode `ask` waits for, until somebody answers.

use std::collections::BTreeMap;

use warren_core::network::{Decision, Destination, Exceptions, Grant, GrantEffect, Protocol, Wish};
use warren_core::{HostName, NetworkEntry, NetworkPolicy, NetworkRule};

use super::sightings::Moment;
use super::{NetworkAsk, NetworkChange, NetworkView};
use crate::error::Missing;
use crate::{EngineError, SandboxNetwork};

/// What was not asked again for so long is forgotten. Longer than any connection waits: whoever answers late still helps the next try.
const KEPT_MS: u64 = 15 * 60_000;
/// More than these at once are not taken note of; the sandbox is told no.
const MOST: usize = 64;

/// What waits, by number.
#[derive(Debug)]
pub(super) struct Asks {
    waiting: BTreeMap<u64, NetworkAsk>,
    last: u64,
}

impl Asks {
    /// Numbers are those of no start before this one whose asks anybody may still have in mind.
    pub(super) fn since(started_unix_ms: u64) -> Self {
        Self { waiting: BTreeMap::new(), last: (started_unix_ms / 1000 % 100_000) * 1000 }
    }

    /// Takes note of a wish. Says whether it is a new one.
    pub(super) fn note(&mut self, entry: &NetworkEntry, now: Moment) -> bool {
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

    pub(super) fn expire(&mut self, now: Moment) {
        self.waiting.retain(|_, ask| now.unix_ms < ask.expires_unix_ms);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&NetworkEntry) -> bool) {
        self.waiting.retain(|_, ask| keep(&ask.entry));
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    fn all(&self) -> Vec<NetworkAsk> {
        self.waiting.values().cloned().collect()
    }
}

/// What an answer to it allows or denies: this name or address at this port, and nothing else.
fn rule_of(entry: &NetworkEntry) -> Option<NetworkRule> {
    match Destination::of(entry) {
        Some(destination) => Some(destination.rule()),
        None => entry.host.as_deref()?.parse().ok(),
    }
}

/// Whether a policy leaves it to somebody to answer this.
pub(super) fn is_open(
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

impl SandboxNetwork {
    /// What waits for somebody's answer, the oldest first.
    pub async fn asks(&self) -> Result<Vec<NetworkAsk>, EngineError> {
        self.sandbox.record().await?;
        let now = Moment::now(self.sandbox.engine.shared.parts.clock.as_ref());
        let asks = self.sandbox.engine.shared.sightings.of(&self.sandbox.id, |known| {
            known.asks.expire(now);
            known.asks.all()
        });
        Ok(asks.unwrap_or_default())
    }

    /// Answers what a sandbox waits for: from now on, and for so long, the very same is allowed or denied. Of several answers to one
    /// ask only the first counts; the others are told that there is no such ask.
    pub async fn answer(
        &self,
        number: u64,
        answer: GrantEffect,
        for_ms: Option<u64>,
    ) -> Result<NetworkView, EngineError> {
        self.sandbox.engine.may_change()?;
        self.sandbox.record().await?;
        let taken = self
            .sandbox
            .engine
            .shared
            .sightings
            .of(&self.sandbox.id, |known| known.asks.waiting.remove(&number))
            .flatten();
        let ask = taken
            .ok_or_else(|| EngineError::NotFound { what: Missing::NetworkAsk, id: number.to_string() })?;
        let until_unix_ms = self.sandbox.engine.until(for_ms);
        let grants = vec![Grant {
            rule: ask.rule.clone(),
            effect: answer,
            until_unix_ms,
            by: self.sandbox.caller.name.clone(),
        }];
        let answered = self.change(NetworkChange::Grant(grants)).await;
        if answered.is_err() {
            self.sandbox
                .engine
                .shared
                .sightings
                .of(&self.sandbox.id, |known| known.asks.waiting.insert(number, ask));
        }
        answered
    }
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
