use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How long the controls may rest.
const REST: Duration = Duration::from_secs(30);

/// The holder of the controls, as one of the viewers sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    Nobody,
    You,
    Other,
}

/// The controls of one browser.
#[derive(Debug)]
pub(super) struct Lease(watch::Sender<Option<Held>>);

/// The viewer that has them, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    viewer: u64,
    until: Instant,
}

impl Lease {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Gives the controls to a viewer, or lets it keep them; false if another one has them.
    pub(super) fn take(&self, viewer: u64) -> bool {
        let now = Instant::now();
        let mut taken = false;
        self.0.send_if_modified(|held| {
            taken = held.is_none_or(|held| held.viewer == viewer || held.until <= now);
            if taken {
                *held = Some(Held { viewer, until: now + REST });
            }
            taken
        });
        taken
    }

    /// True if the viewer has the controls; it may rest as long again.
    pub(super) fn use_by(&self, viewer: u64) -> bool {
        self.of(viewer) == Holder::You && self.take(viewer)
    }

    pub(super) fn release(&self, viewer: u64) {
        self.0.send_if_modified(|held| {
            let ends = held.is_some_and(|held| held.viewer == viewer);
            if ends {
                *held = None;
            }
            ends
        });
    }

    pub(super) fn of(&self, viewer: u64) -> Holder {
        match *self.0.borrow() {
            Some(held) if held.until <= Instant::now() => Holder::Nobody,
            Some(held) if held.viewer == viewer => Holder::You,
            Some(_) => Holder::Other,
            None => Holder::Nobody,
        }
    }

    /// Changes of the holder.
    pub(super) fn follow(&self) -> watch::Receiver<Option<Held>> {
        self.0.subscribe()
    }

    /// When the controls will have rested too long, if somebody has them.
    pub(super) fn until(&self) -> Option<Instant> {
        self.0.borrow().map(|held| held.until).filter(|until| *until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_has_the_controls_until_they_rest() {
        let lease = Lease::new();
        assert!(lease.take(1) && lease.take(1) && !lease.take(2));
        assert_eq!((lease.of(1), lease.of(2)), (Holder::You, Holder::Other));
        tokio::time::advance(REST / 2).await;
        assert!(lease.use_by(1) && !lease.use_by(2));
        tokio::time::advance(REST - Duration::from_secs(1)).await;
        assert!(!lease.take(2));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!((lease.of(1), lease.of(2)), (Holder::Nobody, Holder::Nobody));
        assert!(!lease.use_by(1) && lease.take(2));
        lease.release(1);
        assert_eq!(lease.of(2), Holder::You);
        lease.release(2);
        assert!(lease.take(1));
    }
}
