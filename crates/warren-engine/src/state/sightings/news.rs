//! Which sightings become events. A sandbox that knocks at closed doors all day must not drown what
//! others have to tell.

use std::collections::HashSet;
use std::net::IpAddr;

use warren_core::network::Protocol;
use warren_core::{NetworkEntry, NetworkVerdict};

/// Within this time the same is told once, and once more at its end with how often it was.
const WINDOW_MS: u64 = 60_000;
/// Different things that are told at once within that time.
const MOST_AT_ONCE: usize = 16;
/// Different things that are told one by one at its end; the rest is told as one.
const MOST_LATER: usize = 8;

/// The news of one sandbox, told and waiting.
#[derive(Debug, Default)]
pub(crate) struct News {
    began_ms: u64,
    told: HashSet<Subject>,
    waiting: Vec<(Subject, NetworkEntry)>,
    others: u32,
}

/// The key by which two sightings are the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Subject {
    protocol: Protocol,
    host: Option<String>,
    address: Option<IpAddr>,
    port: u16,
}

impl Subject {
    fn of(entry: &NetworkEntry) -> Self {
        let address = entry.address.filter(|_| entry.host.is_none());
        Self { protocol: entry.protocol, host: entry.host.clone(), address, port: entry.port }
    }
}

impl News {
    /// Takes in a denial. Answers what is to be told now.
    pub(crate) fn hear(&mut self, entry: NetworkEntry, now_ms: u64) -> Vec<NetworkEntry> {
        let mut tell = self.due(now_ms);
        let subject = Subject::of(&entry);
        if self.told.contains(&subject) || self.told.len() >= MOST_AT_ONCE {
            self.keep(subject, entry);
            return tell;
        }
        if self.told.is_empty() {
            self.began_ms = now_ms;
        }
        self.told.insert(subject);
        tell.push(entry);
        tell
    }

    /// The news whose time has come.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<NetworkEntry> {
        if now_ms.saturating_sub(self.began_ms) < WINDOW_MS {
            return Vec::new();
        }
        self.all(now_ms)
    }

    /// All that waits.
    pub(crate) fn all(&mut self, now_ms: u64) -> Vec<NetworkEntry> {
        let (waiting, others) = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.others));
        self.began_ms = now_ms;
        // What goes on is told once in each window.
        self.told = waiting.iter().map(|(subject, _)| subject.clone()).collect();
        let mut tell: Vec<NetworkEntry> = waiting.into_iter().map(|(_, entry)| entry).collect();
        if others > 0 {
            tell.push(NetworkEntry {
                verdict: NetworkVerdict::Denied,
                protocol: Protocol::Tcp,
                host: None,
                address: None,
                port: 0,
                rule: "many destinations; the sandbox's network log has the last of them".to_owned(),
                process: None,
                count: others,
            });
        }
        tell
    }

    fn keep(&mut self, subject: Subject, entry: NetworkEntry) {
        if let Some((_, known)) = self.waiting.iter_mut().find(|(known, _)| *known == subject) {
            let count = known.count.saturating_add(entry.count);
            *known = NetworkEntry { count, ..entry };
        } else if self.waiting.len() < MOST_LATER {
            self.waiting.push((subject, entry));
        } else {
            self.others = self.others.saturating_add(entry.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(host: &str, count: u32) -> NetworkEntry {
        NetworkEntry {
            verdict: NetworkVerdict::Denied,
            protocol: Protocol::Tcp,
            host: Some(host.to_owned()),
            address: None,
            port: 443,
            rule: "not in the allow list".to_owned(),
            process: None,
            count,
        }
    }

    #[test]
    fn the_same_is_told_at_once_and_then_once_in_each_window() {
        let mut news = News::default();
        assert_eq!(news.hear(denied("a", 1), 100_000).len(), 1);
        for _ in 0..1000 {
            assert!(news.hear(denied("a", 2), 100_001).is_empty());
        }
        assert!(news.due(100_000 + WINDOW_MS - 1).is_empty());
        let later = news.due(100_000 + WINDOW_MS);
        assert_eq!(later, [denied("a", 2000)]);
        assert!(news.hear(denied("a", 1), 100_000 + WINDOW_MS + 1).is_empty(), "it was just told");
        assert_eq!(news.due(100_000 + 2 * WINDOW_MS).len(), 1);
        assert!(news.due(100_000 + 3 * WINDOW_MS).is_empty(), "nothing is left");
        assert_eq!(news.hear(denied("a", 1), 100_000 + 4 * WINDOW_MS).len(), 1);
    }

    #[test]
    fn a_flood_of_different_things_is_told_in_few_events() {
        let mut news = News::default();
        let at_once: usize =
            (0..10_000).map(|number| news.hear(denied(&number.to_string(), 1), 100_000).len()).sum();
        let later = news.due(100_000 + WINDOW_MS);
        assert_eq!((at_once, later.len()), (MOST_AT_ONCE, MOST_LATER + 1));
        let told: u32 = later.iter().map(|entry| entry.count).sum();
        assert_eq!(told as usize + at_once, 10_000, "none is lost");
    }
}
