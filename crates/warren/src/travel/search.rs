//! The search for the first bad state.

/// The result of testing a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    Bad,
    /// The state cannot be tested.
    Skip,
}

impl Verdict {
    /// The verdict of a command that ended with this code.
    pub(crate) fn of_exit(code: i32) -> Self {
        match code {
            0 => Self::Good,
            125 => Self::Skip,
            _ => Self::Bad,
        }
    }
}

/// The states of which one is the first bad one: several if those between could not be tested.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Culprits {
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) runs: u32,
}

/// Searches states 0 to `last`, of which 0 is good and `last` is bad. Tests at most ⌈log2 `last`⌉
/// of them, and one more for each that cannot be tested.
pub(crate) fn search<E>(
    last: usize,
    mut test: impl FnMut(usize) -> Result<Verdict, E>,
) -> Result<Culprits, E> {
    let (mut good, mut bad, mut runs) = (0, last, 0);
    let mut untestable = vec![false; last + 1];
    while let Some(middle) = nearest(good, bad, &untestable) {
        runs += 1;
        match test(middle)? {
            Verdict::Good => good = middle,
            Verdict::Bad => bad = middle,
            Verdict::Skip => untestable[middle] = true,
        }
    }
    Ok(Culprits { first: good + 1, last: bad, runs })
}

/// The state between the two that is nearest to the middle and can be tested.
fn nearest(good: usize, bad: usize, untestable: &[bool]) -> Option<usize> {
    let middle = usize::midpoint(good, bad);
    (good + 1..bad).filter(|state| !untestable[*state]).min_by_key(|state| state.abs_diff(middle))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn run(last: usize, verdict: impl Fn(usize) -> Verdict) -> Culprits {
        search(last, |state| {
            assert!(state > 0 && state < last, "the ends are known");
            Ok::<_, Infallible>(verdict(state))
        })
        .unwrap()
    }

    fn first_bad_at(bad: usize) -> impl Fn(usize) -> Verdict {
        move |state| if state >= bad { Verdict::Bad } else { Verdict::Good }
    }

    #[test]
    fn every_culprit_is_found_in_as_many_runs_as_the_logarithm() {
        for last in 1..=130_usize {
            let most = last.next_power_of_two().trailing_zeros();
            for bad in 1..=last {
                let found = run(last, first_bad_at(bad));
                assert_eq!((found.first, found.last), (bad, bad), "{bad} of {last}");
                assert!(found.runs <= most, "{bad} of {last}: {} runs", found.runs);
            }
        }
    }

    #[test]
    fn states_that_cannot_be_tested_are_gone_around() {
        let around = |state| match state {
            4 | 5 => Verdict::Skip,
            state if state >= 7 => Verdict::Bad,
            _ => Verdict::Good,
        };
        let found = run(10, around);
        assert_eq!((found.first, found.last), (7, 7));
    }

    #[test]
    fn what_cannot_be_told_apart_is_told_together() {
        let unclear = |state| match state {
            3..=5 => Verdict::Skip,
            state if state > 5 => Verdict::Bad,
            _ => Verdict::Good,
        };
        let found = run(9, unclear);
        assert_eq!((found.first, found.last), (3, 6));
        let nothing = run(4, |_| Verdict::Skip);
        assert_eq!(nothing, Culprits { first: 1, last: 4, runs: 3 });
    }

    #[test]
    fn the_first_error_ends_the_search() {
        assert_eq!(search(8, |_| Err("gone")), Err("gone"));
    }

    #[test]
    fn exit_codes_are_verdicts() {
        let verdicts = [0, 125, 1, 127, 137].map(Verdict::of_exit);
        assert_eq!(verdicts, [Verdict::Good, Verdict::Skip, Verdict::Bad, Verdict::Bad, Verdict::Bad]);
    }
}
