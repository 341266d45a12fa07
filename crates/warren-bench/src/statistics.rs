use std::time::Duration;

/// One turn of one subject.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lap {
    pub(crate) time: Duration,
    /// With the clean-up that goes on in the background, where there is one.
    pub(crate) settled: Option<Duration>,
}

impl Lap {
    pub(crate) fn of(time: Duration) -> Self {
        Self { time, settled: None }
    }
}

/// Times of the same thing done again and again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn median_ms(&self) -> f64 {
        let sorted = self.sorted_ms();
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => f64::NAN,
            odd if odd % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        }
    }

    /// The smallest sample that at least 99 of 100 do not exceed; below a hundred samples that is
    /// the largest.
    pub(crate) fn p99_ms(&self) -> f64 {
        let sorted = self.sorted_ms();
        let rank = (sorted.len() * 99).div_ceil(100);
        rank.checked_sub(1).map_or(f64::NAN, |index| sorted[index])
    }

    /// The amount by which the median may be wrong: twice its standard error, told from the middle
    /// half of the samples, which outliers do not move. Of few samples, half of their range.
    pub(crate) fn uncertain_ms(&self) -> f64 {
        let sorted = self.sorted_ms();
        let (count, of_range) = (sorted.len(), |from: usize, to: usize| sorted[to] - sorted[from]);
        match count {
            0 | 1 => 0.0,
            few if few < 8 => of_range(0, count - 1) / 2.0,
            _ => 2.0 * 0.93 * of_range(count / 4, count - 1 - count / 4) / (count as f64).sqrt(),
        }
    }

    fn sorted_ms(&self) -> Vec<f64> {
        let mut sorted: Vec<f64> = self.0.iter().map(|sample| sample.as_secs_f64() * 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

/// The amount by which the mean of these may be wrong: twice its standard error.
pub(crate) fn uncertain_mean(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    if count < 2.0 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    2.0 * (variance / count).sqrt()
}

impl FromIterator<Duration> for Samples {
    fn from_iter<I: IntoIterator<Item = Duration>>(samples: I) -> Self {
        Self(samples.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ms: impl IntoIterator<Item = u64>) -> Samples {
        ms.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middle_ones() {
        assert_eq!(of([9, 1, 5]).median_ms(), 5.0);
        assert_eq!(of([9, 1, 5, 6]).median_ms(), 5.5);
        assert_eq!(of([7]).median_ms(), 7.0);
    }

    #[test]
    fn one_in_a_hundred_may_exceed_the_p99() {
        assert_eq!(of(1..=100).p99_ms(), 99.0);
        assert_eq!(of(1..=200).p99_ms(), 198.0);
        assert_eq!(of(1..=20).p99_ms(), 20.0);
        assert_eq!(of([7]).p99_ms(), 7.0);
    }

    #[test]
    fn more_samples_are_less_uncertain_and_outliers_do_not_count() {
        let with_outlier = |count: u64| of((0..count).map(|n| 100 + n % 10).chain([9000]));
        assert!(with_outlier(400).uncertain_ms() < with_outlier(50).uncertain_ms() / 2.0);
        assert!(with_outlier(50).uncertain_ms() < 3.0);
        assert_eq!(of([10, 14, 11]).uncertain_ms(), 2.0);
        assert_eq!(of([10]).uncertain_ms(), 0.0);
    }

    #[test]
    fn a_mean_of_equal_values_is_certain() {
        assert_eq!(uncertain_mean(&[5.0, 5.0, 5.0]), 0.0);
        assert_eq!(uncertain_mean(&[4.0, 6.0]), 2.0);
        assert_eq!(uncertain_mean(&[4.0]), 0.0);
    }

    #[test]
    fn nothing_measured_is_not_a_number() {
        assert!(of([]).median_ms().is_nan() && of([]).p99_ms().is_nan());
    }
}
