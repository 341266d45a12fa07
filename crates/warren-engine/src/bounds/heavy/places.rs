use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;
use warren_core::Owner;

use super::Share;
use crate::bounds::Presence;

/// The places of one kind of work.
#[derive(Debug)]
pub(super) struct Places(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    rules: Rules,
    /// With this, an owner who is alone may have every place.
    lent: Option<Arc<Presence>>,
    queues: Mutex<Queues>,
}

/// The rules for one kind of work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) share: Share,
    /// How many of one owner may wait.
    pub(super) waiting: usize,
    /// How long. Absent: until there is a place.
    pub(super) patience: Option<Duration>,
    /// How long the work may take.
    pub(super) longest: Option<Duration>,
}

/// The work under way, and the requests that wait.
#[derive(Debug, Default)]
struct Queues {
    at_work: usize,
    /// Only owners with work under way or waiting.
    lines: HashMap<Owner, Line>,
    /// Counts requests, so that the oldest is served first.
    came: u64,
}

#[derive(Debug, Default)]
struct Line {
    at_work: usize,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// Lower numbers came first.
    number: u64,
    turn: oneshot::Sender<Place>,
}

/// Permission to do heavy work; given back when dropped.
#[derive(Debug)]
pub struct Place {
    owner: Owner,
    counter: Arc<Counter>,
}

enum Turn {
    Now(Place),
    Later(oneshot::Receiver<Place>),
    Never,
}

impl Places {
    pub(super) fn new(rules: Rules) -> Self {
        Self(Arc::new(Counter { rules, lent: None, queues: Mutex::default() }))
    }

    /// Places that an owner who is alone may all have.
    pub(super) fn lent(rules: Rules, presence: Arc<Presence>) -> Self {
        Self(Arc::new(Counter { rules, lent: Some(presence), queues: Mutex::default() }))
    }

    /// A place, as soon as there is one; `None` when the line is full, or patience is at an end.
    pub(super) async fn place(&self, owner: &Owner) -> Option<Place> {
        match (self.ask(owner), self.0.rules.patience) {
            (Turn::Now(place), _) => Some(place),
            (Turn::Later(turn), Some(patience)) => timeout(patience, turn).await.ok()?.ok(),
            (Turn::Later(turn), None) => turn.await.ok(),
            (Turn::Never, _) => None,
        }
    }

    pub(super) fn share(&self) -> Share {
        self.0.rules.share
    }

    fn ask(&self, owner: &Owner) -> Turn {
        let Rules { share, waiting, .. } = self.0.rules;
        if let Some(presence) = &self.0.lent {
            presence.note(owner);
        }
        let most = self.0.most(owner);
        let mut queues = self.0.queues.lock();
        let room = queues.at_work < share.all;
        queues.came += 1;
        let number = queues.came;
        let line = queues.lines.entry(owner.clone()).or_default();
        // Callers that left no longer wait.
        line.waiting.retain(|waiting| !waiting.turn.is_closed());
        if room && line.at_work < most {
            line.at_work += 1;
            queues.at_work += 1;
            return Turn::Now(Place { owner: owner.clone(), counter: Arc::clone(&self.0) });
        }
        if line.waiting.len() >= waiting {
            return Turn::Never;
        }
        let (turn, later) = oneshot::channel();
        line.waiting.push_back(Waiting { number, turn });
        Turn::Later(later)
    }
}

impl Counter {
    /// How many places the owner may have now.
    fn most(&self, owner: &Owner) -> usize {
        let Share { all, each_owner } = self.rules.share;
        if self.lent.as_ref().is_some_and(|presence| presence.is_alone(owner)) { all } else { each_owner }
    }
}

impl Queues {
    /// Takes the next request out of the queue: one of the owner with the least work under way, and
    /// of several the oldest.
    fn next(&mut self, most: impl Fn(&Owner) -> usize) -> Option<(Owner, oneshot::Sender<Place>)> {
        for line in self.lines.values_mut() {
            line.waiting.retain(|waiting| !waiting.turn.is_closed());
        }
        let ranked = self
            .lines
            .iter()
            .filter(|(owner, line)| line.at_work < most(owner))
            .filter_map(|(owner, line)| Some(((line.at_work, line.waiting.front()?.number), owner)));
        let owner = ranked.min_by_key(|(rank, _)| *rank)?.1.clone();
        let line = self.lines.get_mut(&owner)?;
        let waiting = line.waiting.pop_front()?;
        line.at_work += 1;
        self.at_work += 1;
        Some((owner, waiting.turn))
    }

    fn leave(&mut self, owner: &Owner) {
        self.at_work = self.at_work.saturating_sub(1);
        if let Some(line) = self.lines.get_mut(owner) {
            line.at_work = line.at_work.saturating_sub(1);
        }
    }

    fn forget_idle(&mut self) {
        self.lines.retain(|_, line| line.at_work > 0 || !line.waiting.is_empty());
    }
}

impl Place {
    /// How long the work may take.
    pub(super) fn longest(&self) -> Option<Duration> {
        self.counter.rules.longest
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = self.counter.queues.lock();
        queues.leave(&self.owner);
        let next = queues.next(|owner| self.counter.most(owner));
        queues.forget_idle();
        drop(queues);
        // A caller that has just left drops the place, which then goes to the next.
        if let Some((owner, turn)) = next {
            drop(turn.send(Self { owner, counter: Arc::clone(&self.counter) }));
        }
    }
}
