use std::time::Duration;

use crate::session::Session;
use crate::statistics::{Lap, Samples};

/// A subject in a race.
pub(crate) struct Contender<'a> {
    name: &'static str,
    lap: Box<dyn FnMut() -> anyhow::Result<Lap> + 'a>,
    /// Takes part in every n-th round only: a slow subject needs no hundreds of samples.
    every: usize,
    times: Samples,
    settled: Samples,
    failed: Option<String>,
}

/// From this on a subject is slow.
const SLOW: Duration = Duration::from_millis(100);

impl<'a> Contender<'a> {
    pub(crate) fn new(name: &'static str, lap: impl FnMut() -> anyhow::Result<Lap> + 'a) -> Self {
        Self {
            name,
            lap: Box::new(lap),
            every: 1,
            times: Samples::default(),
            settled: Samples::default(),
            failed: None,
        }
    }

    fn turn(&mut self) -> Option<Lap> {
        if self.failed.is_some() {
            return None;
        }
        match (self.lap)() {
            Ok(lap) => Some(lap),
            Err(error) => {
                self.failed = Some(format!("{error:#}"));
                None
            }
        }
    }

    fn measured_turn(&mut self) {
        if let Some(lap) = self.turn() {
            self.times.push(lap.time);
            lap.settled.into_iter().for_each(|settled| self.settled.push(settled));
        }
    }
}

/// Lets all take turns, in another order each round, so that disturbances meet all alike. Slow ones
/// sit out most rounds.
pub(crate) fn race(
    session: &mut Session<'_>,
    case: &str,
    mut field: Vec<Contender<'_>>,
) -> anyhow::Result<()> {
    for contender in &mut field {
        let warm: Vec<Lap> = (0..session.plan.sizes.warm_ups).filter_map(|_| contender.turn()).collect();
        session.go_on()?;
        let slow = warm.iter().map(|lap| lap.time).min().is_some_and(|time| time > SLOW);
        contender.every = if slow { (session.plan.sizes.rounds / 50).max(4) } else { 1 };
    }
    run(session, case, session.plan.sizes.rounds, field)
}

/// The same for a given number of rounds, in which all take part.
pub(crate) fn race_for(
    session: &mut Session<'_>,
    case: &str,
    rounds: usize,
    mut field: Vec<Contender<'_>>,
) -> anyhow::Result<()> {
    for contender in &mut field {
        session.progress(&format!("{case}: warming up"));
        contender.turn();
        session.go_on()?;
    }
    run(session, case, rounds, field)
}

fn run(
    session: &mut Session<'_>,
    case: &str,
    rounds: usize,
    mut field: Vec<Contender<'_>>,
) -> anyhow::Result<()> {
    let mut order: Vec<usize> = (0..field.len()).collect();
    let mut dice = Dice::default();
    for round in 0..rounds {
        session.progress(&format!("{case}: round {} of {rounds}", round + 1));
        dice.shuffle(&mut order);
        for &index in &order {
            if round % field[index].every == 0 {
                field[index].measured_turn();
            }
            session.go_on()?;
        }
    }
    for contender in field {
        if let Some(reason) = &contender.failed {
            session.fail(contender.name, format!("{case}: {reason}"));
            continue;
        }
        session.enter_times(case, contender.name, &contender.times);
        if contender.settled.len() > 0 {
            session.enter_times(case, &format!("{}_settled", contender.name), &contender.settled);
        }
    }
    Ok(())
}

/// Random numbers that repeat from run to run.
pub(crate) struct Dice(u64);

impl Default for Dice {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Dice {
    fn shuffle(&mut self, order: &mut [usize]) {
        for last in (1..order.len()).rev() {
            let chosen = self.roll() % (last as u64 + 1);
            order.swap(last, usize::try_from(chosen).unwrap_or_default());
        }
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_holds_everyone_and_they_differ() {
        let mut dice = Dice::default();
        let mut order = [0, 1, 2, 3, 4];
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..50 {
            dice.shuffle(&mut order);
            let mut sorted = order;
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
            seen.insert(order);
        }
        assert!(seen.len() > 20, "{} different orders", seen.len());
    }
}
