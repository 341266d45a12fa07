use std::time::Duration;

use super::tasks::Tasks;

/// Over how many seconds each average reaches.
const REACHES: [f64; 3] = [60.0, 300.0, 900.0];

/// How many tasks wanted a processor or waited for a disk, on average.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct LoadAverage {
    averages: [f64; 3],
}

impl LoadAverage {
    /// Lets time pass. The kernel decays its averages every five seconds by a fixed factor;
    /// readings here are as far apart as they happen to be, so the factor follows from the time.
    ///
    /// `active` was counted at the end of that time and sees one thread of a process only. The
    /// processor time `worked` meanwhile tells how many were at work at least.
    pub(super) fn pass(&mut self, elapsed: Duration, active: u32, worked: Duration) {
        let seconds = elapsed.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let active = f64::from(active).max(worked.as_secs_f64() / seconds);
        for (average, reach) in self.averages.iter_mut().zip(REACHES) {
            let kept = (-seconds / reach).exp();
            *average = *average * kept + active * (1.0 - kept);
        }
    }

    /// `/proc/loadavg`.
    pub(super) fn text(&self, tasks: &Tasks) -> String {
        let [one, five, fifteen] = self.averages;
        let (running, threads, last) = (tasks.running_with_reader(), tasks.threads, tasks.last_pid);
        format!("{one:.2} {five:.2} {fifteen:.2} {running}/{threads} {last}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    fn minute_of(steps: u32, active: u32) -> LoadAverage {
        let mut load = LoadAverage::default();
        for _ in 0..steps {
            load.pass(Duration::from_secs(60) / steps, active, NONE);
        }
        load
    }

    fn close(load: LoadAverage, expected: [f64; 3]) -> bool {
        load.averages.iter().zip(expected).all(|(found, wanted)| (found - wanted).abs() < 1e-6)
    }

    #[test]
    fn a_minute_of_work_is_the_same_however_it_is_cut() {
        let expected = [60.0, 300.0, 900.0].map(|reach: f64| 1.0 - (-60.0 / reach).exp());
        for steps in [1, 12, 60, 997] {
            assert!(close(minute_of(steps, 1), expected), "{steps}");
        }
        assert!(close(minute_of(60, 3), expected.map(|one| 3.0 * one)));
    }

    #[test]
    fn rest_decays() {
        let mut load = minute_of(60, 1);
        load.pass(Duration::from_secs(3600), 0, NONE);
        assert!(load.averages[0] < 1e-6 && load.averages[2] < 0.01);
        assert!(load.averages.windows(2).all(|pair| pair[0] <= pair[1]), "{load:?}");
    }

    #[test]
    fn work_of_threads_counts() {
        let mut load = LoadAverage::default();
        load.pass(Duration::from_secs(100_000), 1, Duration::from_secs(400_000));
        assert!(close(load, [4.0; 3]), "{load:?}");
    }

    #[test]
    fn no_time_changes_nothing() {
        let mut load = minute_of(1, 1);
        let before = load.averages;
        load.pass(NONE, 99, Duration::from_secs(1));
        assert!(close(load, before));
    }

    #[test]
    fn the_text_is_the_kernels() {
        let tasks = Tasks { running: 2, blocked: 1, threads: 17, last_pid: 4321 };
        let load = LoadAverage { averages: [0.236, 12.5, 0.004] };
        assert_eq!(load.text(&tasks), "0.24 12.50 0.00 3/17 4321\n");
    }
}
