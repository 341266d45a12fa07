use std::os::fd::AsFd;

use rustix::fs::{Dir, Mode, OFlags};

/// The agent's own process number, as text.
const AGENT: &[u8] = b"1";
/// More than the file has, however large its numbers.
const STAT_BYTES: usize = 1024;

/// The sandbox's processes at one moment, the agent's own work left out.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tasks {
    pub(super) running: u32,
    /// In a wait that no signal ends: for a disk, as a rule.
    pub(super) blocked: u32,
    /// Of all processes, the agent included.
    pub(super) threads: u32,
    pub(super) last_pid: u32,
}

impl Tasks {
    pub(super) const AGENT_ALONE: Self = Self { running: 0, blocked: 0, threads: 1, last_pid: 1 };

    /// Looks at every process.
    pub(super) fn look() -> Self {
        let mut tasks = Self::default();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(proc) = rustix::fs::open("/proc", flags, Mode::empty()) else { return Self::AGENT_ALONE };
        let Ok(entries) = Dir::read_from(&proc) else { return Self::AGENT_ALONE };
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if name.first().is_some_and(u8::is_ascii_digit) {
                tasks.count(name, &stat_of(&proc, name));
            }
        }
        tasks
    }

    fn count(&mut self, pid: &[u8], stat: &[u8]) {
        let Some((state, threads)) = parse(stat) else { return };
        self.threads = self.threads.saturating_add(threads);
        match state {
            // It is running because it is looking.
            _ if pid == AGENT => {}
            b'R' => self.running += 1,
            b'D' => self.blocked += 1,
            _ => {}
        }
    }

    /// Takes the last process number from the kernel's own `/proc/loadavg`, where it comes last.
    pub(super) fn with_last_pid(self, kernel_load: &str) -> Self {
        let last_pid = kernel_load.split_ascii_whitespace().last().and_then(|word| word.parse().ok());
        Self { last_pid: last_pid.unwrap_or(1), ..self }
    }

    /// The tasks that count towards the load.
    pub(super) fn active(&self) -> u32 {
        self.running + self.blocked
    }

    /// The running tasks. The reader of this number is one of them.
    pub(super) fn running_with_reader(&self) -> u32 {
        self.running + 1
    }
}

fn stat_of(proc: impl AsFd, pid: &[u8]) -> Vec<u8> {
    let path = [pid, b"/stat"].concat();
    let mut text = Vec::with_capacity(STAT_BYTES);
    if let Ok(file) = rustix::fs::openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        rustix::io::read(&file, rustix::buffer::spare_capacity(&mut text)).ok();
    }
    text
}

/// State and number of threads in `/proc/<pid>/stat`. The program's name comes before them, in
/// brackets, and may itself contain anything.
fn parse(stat: &[u8]) -> Option<(u8, u32)> {
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&stat[end_of_name + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.bytes().next()?;
    let threads = fields.nth(16)?.parse().ok()?;
    Some((state, threads))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, state: char, threads: u32) -> Vec<u8> {
        format!("12 ({name}) {state} 1 12 12 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 {threads} 0 333 0 0\n").into()
    }

    #[test]
    fn names_may_contain_anything() {
        for name in ["sh", "a b", ") R 1 (", "", "x)\nD"] {
            assert_eq!(parse(&stat(name, 'S', 3)), Some((b'S', 3)), "{name:?}");
        }
    }

    #[test]
    fn what_is_not_a_stat_is_nothing() {
        for text in
            ["", "1 (sh", "1 (sh)", "1 (sh) S 1 2 3", "1 (sh) S 1 12 12 0 -1 1 1 0 0 0 1 2 0 0 20 0 x"]
        {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn the_agent_does_not_count_as_running() {
        let mut tasks = Tasks::default();
        tasks.count(b"1", &stat("warren-guest", 'R', 2));
        tasks.count(b"12", &stat("busy", 'R', 1));
        tasks.count(b"13", &stat("writer", 'D', 4));
        tasks.count(b"14", &stat("idle", 'S', 1));
        tasks.count(b"15", b"");
        assert_eq!(tasks, Tasks { running: 1, blocked: 1, threads: 8, last_pid: 0 });
        assert_eq!((tasks.active(), tasks.running_with_reader()), (2, 2));
    }

    #[test]
    fn the_last_process_number_comes_last() {
        let tasks = Tasks::AGENT_ALONE.with_last_pid("0.10 0.20 0.30 2/99 4711\n");
        assert_eq!(tasks.last_pid, 4711);
        assert_eq!(tasks.with_last_pid("").last_pid, 1);
    }
}
