use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::timeout;
use warren_core::Owner;

use super::Share;
use crate::bounds::Presence;

/// The places of one kind of work.
#[derive(Debug)]
pub(super) struct Crew(Arc<Office>);

#[derive(Debug)]
struct Office {
    rules: Rules,
    /// An owner who is alone here may have every place. Absent: nobody may.
    lent: Option<Arc<Presence>>,
    desk: Mutex<Desk>,
}

/// What holds for one kind of work.
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

/// Who works, and who waits.
#[derive(Debug, Default)]
struct Desk {
    at_work: usize,
    /// Those of whom anybody works or waits.
    lines: HashMap<Owner, Line>,
    /// Counts those who came.
    came: u64,
}

#[derive(Debug, Default)]
struct Line {
    at_work: usize,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// Which came first.
    number: u64,
    turn: oneshot::Sender<Place>,
}

/// Leave to do heavy work; given back when dropped.
#[derive(Debug)]
pub struct Place {
    owner: Owner,
    office: Arc<Office>,
}

enum Turn {
    Now(Place),
    Later(oneshot::Receiver<Place>),
    Never,
}

impl Crew {
    pub(super) fn new(rules: Rules) -> Self {
        Self(Arc::new(Office { rules, lent: None, desk: Mutex::default() }))
    }

    /// One whose places are all for an owner who is alone.
    pub(super) fn lent(rules: Rules, presence: Arc<Presence>) -> Self {
        Self(Arc::new(Office { rules, lent: Some(presence), desk: Mutex::default() }))
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
        let mut desk = self.0.desk();
        let room = desk.at_work < share.all;
        desk.came += 1;
        let number = desk.came;
        let line = desk.lines.entry(owner.clone()).or_default();
        // Those who went away no longer wait.
        line.waiting.retain(|waiting| !waiting.turn.is_closed());
        if room && line.at_work < most {
            line.at_work += 1;
            desk.at_work += 1;
            return Turn::Now(Place { owner: owner.clone(), office: Arc::clone(&self.0) });
        }
        if line.waiting.len() >= waiting {
            return Turn::Never;
        }
        let (turn, later) = oneshot::channel();
        line.waiting.push_back(Waiting { number, turn });
        Turn::Later(later)
    }
}

impl Office {
    /// How many places the owner may have now.
    fn most(&self, owner: &Owner) -> usize {
        let Share { all, each_owner } = self.rules.share;
        if self.lent.as_ref().is_some_and(|presence| presence.is_alone(owner)) { all } else { each_owner }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock()
    }
}

impl Desk {
    /// Of those who may work next, one of the owner who works least; of several, who waits longest.
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
        self.office.rules.longest
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut desk = self.office.desk();
        desk.leave(&self.owner);
        let next = desk.next(|owner| self.office.most(owner));
        desk.forget_idle();
        drop(desk);
        // One who has just gone away hands the place back, and that asks for the next.
        if let Some((owner, turn)) = next {
            drop(turn.send(Self { owner, office: Arc::clone(&self.office) }));
        }
    }
}
