use std::fmt::Write;
use std::time::Duration;

use super::tasks::Tasks;

/// Ticks in a second, in every file of `/proc` that counts in ticks.
const TICKS: u128 = 100;

/// Processor time that a sandbox has used.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessorTime {
    user: Duration,
    system: Duration,
}

impl ProcessorTime {
    /// Reads `cpu.stat`, in microseconds, or `cpuacct.usage`, which is nanoseconds of both kinds
    /// together.
    pub(super) fn parse(text: &str) -> Self {
        if let Ok(both) = text.trim().parse() {
            return Self { user: Duration::from_nanos(both), system: Duration::ZERO };
        }
        let field = |name: &str| {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
            Duration::from_micros(value.unwrap_or(0))
        };
        let system = field("system_usec");
        // The split is an estimate of the kernel's, the sum is not.
        Self { user: field("usage_usec").saturating_sub(system), system }
    }

    pub(super) fn total(self) -> Duration {
        self.user.saturating_add(self.system)
    }
}

/// The figures that make up `/proc/stat`.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) cpus: u32,
    pub(super) used: ProcessorTime,
    /// Of all processors together.
    pub(super) idle: Duration,
    /// Seconds since 1970.
    pub(super) switched_on: u64,
}

impl Figures {
    /// `/proc/stat`. A control group does not say which processor did the work, so all did the
    /// same. The number of processes ever made is the last process number, which holds until
    /// numbers are used again.
    pub(super) fn text(&self, tasks: &Tasks) -> String {
        let [user, system, idle] = [self.used.user, self.used.system, self.idle].map(ticks);
        let mut text = String::with_capacity(256);
        writeln!(text, "cpu  {user} 0 {system} {idle} 0 0 0 0 0 0").ok();
        for number in 0..u128::from(self.cpus) {
            let [user, system, idle] = [user, system, idle].map(|all| part(all, number, self.cpus));
            writeln!(text, "cpu{number} {user} 0 {system} {idle} 0 0 0 0 0 0").ok();
        }
        writeln!(
            text,
            "intr 0\nctxt 0\nbtime {}\nprocesses {}\nprocs_running {}\nprocs_blocked {}\nsoftirq 0 0 0 0 0 0 0 0 0 0 0",
            self.switched_on,
            tasks.last_pid,
            tasks.running_with_reader(),
            tasks.blocked,
        )
        .ok();
        text
    }
}

fn ticks(time: Duration) -> u128 {
    time.as_nanos() * TICKS / 1_000_000_000
}

/// Part `number` of `all` in `parts` parts as equal as can be; together they are `all`.
fn part(all: u128, number: u128, parts: u32) -> u128 {
    let until = |number: u128| all * number / u128::from(parts.max(1));
    until(number + 1) - until(number)
}

/// `/proc/uptime`: since the machine was switched on, and how long its processors had nothing to
/// do.
pub(super) fn uptime_text(up: Duration, idle: Duration) -> String {
    let hundredths = |time: Duration| format!("{}.{:02}", time.as_secs(), time.subsec_millis() / 10);
    format!("{} {}\n", hundredths(up), hundredths(idle))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(user_ms: u64, system_ms: u64) -> ProcessorTime {
        ProcessorTime { user: Duration::from_millis(user_ms), system: Duration::from_millis(system_ms) }
    }

    #[test]
    fn both_versions_of_control_groups_are_understood() {
        let v2 = "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\nnr_periods 3\n";
        assert_eq!(ProcessorTime::parse(v2), time(1000, 500));
        assert_eq!(ProcessorTime::parse("1500000000\n"), time(1500, 0));
        assert_eq!(ProcessorTime::parse("usage_usec 250000\n"), time(250, 0));
        for odd in ["", "usage_usec\n", "usage_usec x\n", "-3"] {
            assert_eq!(ProcessorTime::parse(odd), time(0, 0), "{odd:?}");
        }
    }

    #[test]
    fn stat_has_a_line_for_each_processor() {
        let tasks = Tasks { running: 2, blocked: 1, threads: 9, last_pid: 77 };
        let figures = Figures {
            cpus: 2,
            used: time(1010, 500),
            idle: Duration::from_millis(3_490),
            switched_on: 1_700_000_000,
        };
        assert_eq!(
            figures.text(&tasks),
            "cpu  101 0 50 349 0 0 0 0 0 0\n\
             cpu0 50 0 25 174 0 0 0 0 0 0\n\
             cpu1 51 0 25 175 0 0 0 0 0 0\n\
             intr 0\nctxt 0\nbtime 1700000000\nprocesses 77\nprocs_running 3\nprocs_blocked 1\n\
             softirq 0 0 0 0 0 0 0 0 0 0 0\n"
        );
    }

    #[test]
    fn the_parts_are_the_whole() {
        for (all, parts) in [(0, 1), (7, 3), (100, 64), (5, 0)] {
            let sum: u128 = (0..u128::from(parts)).map(|number| part(all, number, parts)).sum();
            assert_eq!(sum, if parts == 0 { 0 } else { all });
        }
    }

    #[test]
    fn uptime_has_hundredths() {
        let text = uptime_text(Duration::from_millis(61_059), Duration::from_millis(120_000));
        assert_eq!(text, "61.05 120.00\n");
    }
}
