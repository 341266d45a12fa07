//! When the server is behind, the owner who asks most waits.
//!
//! A task looks how late it is woken. While that is more than a moment, and more than one owner
//! asks, the pace at which each owner's requests are begun falls until it is not, and then rises
//! again. An owner who asks for less than that never waits, and neither does an owner who is alone:
//! there is nobody to leave anything to.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use warren_core::Owner;

/// How often lateness is looked at while somebody asks.
const LOOK: Duration = Duration::from_millis(10);
/// Later than this, on average, is behind. A timer alone is late by one or two milliseconds.
const LATE: Duration = Duration::from_millis(3);
/// Owners who asked within this time are at work.
const AT_WORK: Duration = Duration::from_secs(1);
/// However far behind the server is, each owner may ask so often in a second.
const LEAST_PACE: f64 = 50.0;
/// Requests that come at once are no haste.
const AT_ONCE: f64 = 8.0;
/// Nobody waits longer.
const LONGEST: Duration = Duration::from_secs(2);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Fairness {
    rates: Mutex<Rates>,
    asked: Notify,
}

#[derive(Debug, Default)]
struct Rates {
    /// Requests of one owner in a second. Absent: any number.
    pace: Option<f64>,
    /// How late the task is woken, on average.
    late: Duration,
    owners: HashMap<Owner, Asking>,
}

#[derive(Debug)]
struct Asking {
    last: Instant,
    /// When the next request would begin, at the pace in force.
    next: Instant,
    /// Requests since the last look.
    count: u32,
    /// In a second, on average.
    rate: f64,
}

impl Fairness {
    /// Waits for a request's turn.
    pub(crate) async fn turn(&self, owner: &Owner) {
        let wait = self.rates().wait(owner, Instant::now());
        self.asked.notify_one();
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }

    /// Looks after the pace, for as long as the server lives.
    pub(crate) async fn keep(&self) {
        loop {
            if self.rates().owners.is_empty() {
                self.asked.notified().await;
            }
            let began = Instant::now();
            sleep(LOOK).await;
            let now = Instant::now();
            self.rates().look(now, now.duration_since(began).saturating_sub(LOOK));
        }
    }

    fn rates(&self) -> MutexGuard<'_, Rates> {
        self.rates.lock()
    }
}

impl Rates {
    fn wait(&mut self, owner: &Owner, now: Instant) -> Duration {
        if !self.owners.contains_key(owner) {
            let next = now.checked_sub(AT_WORK).unwrap_or(now);
            self.owners.insert(owner.clone(), Asking { last: now, next, count: 0, rate: 0.0 });
        }
        let Some(asking) = self.owners.get_mut(owner) else { return Duration::ZERO };
        asking.last = now;
        asking.count = asking.count.saturating_add(1);
        let Some(pace) = self.pace else { return Duration::ZERO };
        let step = Duration::from_secs_f64(1.0 / pace);
        let earliest = now.checked_sub(step.mul_f64(AT_ONCE)).unwrap_or(now);
        asking.next = (asking.next.max(earliest) + step).min(now + LONGEST);
        asking.next.saturating_duration_since(now)
    }

    fn look(&mut self, now: Instant, late: Duration) {
        self.late = self.late.mul_f64(0.9) + late.mul_f64(0.1);
        self.owners.retain(|_, asking| now.duration_since(asking.last) < AT_WORK);
        for asking in self.owners.values_mut() {
            let rate = f64::from(std::mem::take(&mut asking.count)) / LOOK.as_secs_f64();
            asking.rate = asking.rate * 0.9 + rate * 0.1;
        }
        let fastest = self.owners.values().map(|asking| asking.rate).fold(0.0, f64::max);
        let behind = self.owners.len() > 1 && self.late > LATE;
        self.pace = match self.pace {
            _ if self.owners.len() < 2 => None,
            None if behind => Some(fastest.max(LEAST_PACE)),
            Some(pace) if behind => Some((pace * 0.9).max(LEAST_PACE)),
            // Nobody is held back any more.
            Some(pace) if pace > fastest * 4.0 + LEAST_PACE => None,
            pace => pace.map(|pace| pace * 1.02),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        name.parse().unwrap()
    }

    /// Half a second in which one owner asks two thousand times in a second and another twenty
    /// times, and all wake-ups are late.
    fn pressed(rates: &mut Rates, now: &mut Instant, late: Duration, others: bool) -> (Duration, Duration) {
        let (mut hasty, mut calm) = (Duration::ZERO, Duration::ZERO);
        for look in 0..50 {
            for _ in 0..20 {
                hasty = rates.wait(&owner("hasty"), *now);
            }
            if others && look % 5 == 0 {
                calm = calm.max(rates.wait(&owner("calm"), *now));
            }
            *now += LOOK;
            rates.look(*now, late);
        }
        (hasty, calm)
    }

    #[test]
    fn whoever_asks_most_waits_and_whoever_asks_less_does_not() {
        let (mut rates, mut now) = (Rates::default(), Instant::now());
        let (hasty, calm) = pressed(&mut rates, &mut now, 5 * LATE, true);
        assert!(hasty > Duration::from_millis(50), "{hasty:?}");
        assert_eq!(calm, Duration::ZERO);
    }

    #[test]
    fn nobody_waits_while_the_server_keeps_up() {
        let (mut rates, mut now) = (Rates::default(), Instant::now());
        assert_eq!(pressed(&mut rates, &mut now, LATE / 2, true), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn an_owner_who_is_alone_does_not_wait() {
        let (mut rates, mut now) = (Rates::default(), Instant::now());
        assert_eq!(pressed(&mut rates, &mut now, 5 * LATE, false).0, Duration::ZERO);
    }

    #[test]
    fn nobody_waits_for_long_and_all_is_well_again_in_the_end() {
        let (mut rates, mut now) = (Rates::default(), Instant::now());
        for _ in 0..20 {
            assert!(pressed(&mut rates, &mut now, 5 * LATE, true).0 <= LONGEST);
        }
        for _ in 0..500 {
            now += LOOK;
            rates.wait(&owner("calm"), now);
            rates.look(now, Duration::ZERO);
        }
        assert_eq!((rates.pace, rates.owners.len()), (None, 1));
    }
}
