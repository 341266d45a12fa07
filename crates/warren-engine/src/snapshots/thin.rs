//! Which snapshots are given up when there are too many: the newest stay as dense as they are, the
//! older they are the fewer stay.

/// A snapshot of which it is decided whether it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) at_ms: u64,
    /// It stays, whatever the others do.
    pub(super) stays: bool,
}

/// Which of these are given up, by their index. The newest come first; at most `most` stay of those
/// that may go.
pub(super) fn surplus(moments: &[Moment], most: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..moments.len()).collect();
    let going = |index: &&usize| moments.get(**index).is_some_and(|moment| !moment.stays);
    let mut too_many = left.iter().filter(going).count().saturating_sub(most);
    let dense = most.div_ceil(2);
    let mut given_up = Vec::new();
    while too_many > 0 {
        let Some(place) = least_missed(moments, &left, dense) else { break };
        given_up.push(left.remove(place));
        too_many -= 1;
    }
    given_up.sort_unstable();
    given_up
}

/// The one whose absence leaves the smallest gap, for its age. The newest that may go are not
/// looked at.
fn least_missed(moments: &[Moment], left: &[usize], dense: usize) -> Option<usize> {
    let at = |place: usize| left.get(place).and_then(|index| moments.get(*index));
    let newest_ms = at(0)?.at_ms;
    let candidates =
        (0..left.len()).filter(|place| at(*place).is_some_and(|moment| !moment.stays)).skip(dense);
    candidates.min_by_key(|place| {
        let age_ms = at(*place).map_or(0, |moment| newest_ms.saturating_sub(moment.at_ms));
        let newer_ms = place.checked_sub(1).and_then(at).map_or(newest_ms, |moment| moment.at_ms);
        let older_ms = at(place + 1).map_or(0, |moment| moment.at_ms);
        // In parts of a thousand of the age, so that gaps grow with it.
        u128::from(newer_ms.saturating_sub(older_ms)) * 1000 / (u128::from(age_ms) + 1)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn every_second(count: u64) -> Vec<Moment> {
        (0..count).map(|number| Moment { at_ms: (count - number) * 1000, stays: false }).collect()
    }

    #[test]
    fn as_many_as_may_stay_stay() {
        assert!(surplus(&every_second(200), 200).is_empty());
        assert_eq!(surplus(&every_second(201), 200).len(), 1);
        assert_eq!(surplus(&every_second(3), 0).len(), 3);
    }

    #[test]
    fn the_newest_stay_dense_and_gaps_grow_with_age() {
        let moments = every_second(1000);
        let gone = surplus(&moments, 100);
        assert!(gone.iter().all(|index| *index >= 50), "one of the newest went");
        let kept: Vec<u64> = (0..moments.len())
            .filter(|index| !gone.contains(index))
            .map(|index| moments[index].at_ms)
            .collect();
        let gap = |part: &[u64]| part.windows(2).map(|pair| pair[0] - pair[1]).max().unwrap();
        assert_eq!(gap(&kept[..50]), 1000);
        assert!(gap(&kept[50..75]) < gap(&kept[75..]), "{kept:?}");
        assert!(*kept.last().unwrap() < 200_000, "the distant past is not forgotten: {kept:?}");
    }

    #[test]
    fn what_is_to_stay_stays_and_does_not_count() {
        let mut moments = every_second(100);
        for index in [10, 55, 99] {
            moments[index].stays = true;
        }
        let gone = surplus(&moments, 20);
        assert_eq!(gone.len(), 77);
        assert!([10, 55, 99].iter().all(|index| !gone.contains(index)));
    }

    proptest! {
        #[test]
        fn never_more_nor_fewer_go_than_must(
            times in proptest::collection::vec((0..100_000u64, any::<bool>()), 0..120),
            most in 0..40usize,
        ) {
            let mut moments: Vec<Moment> = times.iter().map(|(at_ms, stays)| Moment { at_ms: *at_ms, stays: *stays }).collect();
            moments.sort_by_key(|moment| std::cmp::Reverse(moment.at_ms));
            let gone = surplus(&moments, most);
            let may_go = moments.iter().filter(|moment| !moment.stays).count();
            prop_assert_eq!(gone.len(), may_go.saturating_sub(most));
            prop_assert!(gone.iter().all(|index| !moments[*index].stays));
        }
    }
}
