//! The machine that the sandbox's processes see in `/proc`: memory, processor time, uptime and load
//! of the sandbox itself.
//!
//! The kernel shows the host's figures there. `boot/machine.rs` covers the files with plain ones,
//! which are read-only for everybody inside; the agent holds descriptors for writing. They are
//! rewritten before a process starts if they are older than [`FRESH`], and every so often while
//! anything but the agent runs. Nothing runs, nothing reads: an idle sandbox has no timer.
//!
//! `sysinfo(2)` cannot be covered: its memory and load are the host's, its uptime is the sandbox's
//! where the kernel has time namespaces.

mod load;
mod memory;
mod processor;
mod tasks;

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime};

use rustix::io::Errno;
use rustix::time::ClockId;

use self::load::LoadAverage;
use self::memory::Memory;
use self::processor::ProcessorTime;
use self::tasks::Tasks;

/// How old the figures may be when a process starts, and how often they are renewed while something
/// runs.
pub(crate) const FRESH: Duration = Duration::from_secs(1);
/// With very many processes, looking at all of them takes at most this part of one processor.
const SHARE_OF_TIME: u32 = 50;
/// More than any file of a control group that is read here.
const GAUGE_BYTES: usize = 16 * 1024;

/// The size of a machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) memory_bytes: u64,
    pub(crate) cpus: u32,
}

/// Where the figures come from. A gauge that the host does not have reads as zero.
#[derive(Debug)]
pub(crate) struct Gauges {
    pub(crate) memory_used: Option<OwnedFd>,
    pub(crate) memory_stat: Option<OwnedFd>,
    pub(crate) cpu_used: Option<OwnedFd>,
    /// The kernel's own `/proc/loadavg` from below the cover: it knows the last process number.
    pub(crate) kernel_load: Option<OwnedFd>,
}

/// The files over those of `/proc`, open for writing.
#[derive(Debug)]
pub(crate) struct Covers {
    pub(crate) meminfo: Cover,
    pub(crate) stat: Cover,
    pub(crate) uptime: Cover,
    pub(crate) loadavg: Cover,
}

#[derive(Debug)]
pub(crate) struct Cover {
    file: OwnedFd,
    length: usize,
}

impl Cover {
    pub(crate) fn new(file: OwnedFd) -> Self {
        Self { file, length: 0 }
    }

    /// The new text goes over the old one, and only then is what is left of that cut off: a reader
    /// never finds the file empty.
    fn write(&mut self, text: &str) -> Result<(), Errno> {
        let mut written = 0;
        while written < text.len() {
            match rustix::io::pwrite(&self.file, &text.as_bytes()[written..], written as u64) {
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        if text.len() < self.length {
            rustix::fs::ftruncate(&self.file, text.len() as u64)?;
        }
        self.length = text.len();
        Ok(())
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Machine {
    size: Size,
    gauges: Gauges,
    covers: Covers,
    /// When the machine was switched on, by the boot-time clock of this process.
    began: Duration,
    load: LoadAverage,
    /// Never less than it was, as meters that subtract one reading from the next expect.
    idle: Duration,
    cpu: ProcessorTime,
    written: Option<Instant>,
    /// How long it took to look.
    cost: Duration,
    /// When the agent's timer is set to look again.
    due: Option<Instant>,
}

/// Everything that is measured.
#[derive(Debug, Default)]
struct Reading {
    memory: Memory,
    cpu: ProcessorTime,
    tasks: Tasks,
}

impl Machine {
    /// A machine that was just switched on. Its files stay empty until somebody is there to read
    /// them.
    pub(crate) fn new(size: Size, gauges: Gauges, covers: Covers, began: Duration) -> Self {
        Self {
            size,
            gauges,
            covers,
            began,
            load: LoadAverage::default(),
            idle: Duration::ZERO,
            cpu: ProcessorTime::default(),
            written: None,
            cost: Duration::ZERO,
            due: None,
        }
    }

    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        self.written.is_none_or(|written| now.saturating_duration_since(written) >= FRESH)
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Decides when to look again while something runs.
    pub(crate) fn plan(&mut self, now: Instant) -> Instant {
        let at = now + self.interval();
        self.due = Some(at);
        at
    }

    fn interval(&self) -> Duration {
        FRESH.max(self.cost.saturating_mul(SHARE_OF_TIME))
    }

    /// Looks no more. Returns what was planned.
    pub(crate) fn rest(&mut self) -> Option<Instant> {
        self.due.take()
    }

    /// Measures and writes. What cannot be written stays as it was: figures never end a sandbox.
    /// `alone`: nothing runs but the agent.
    pub(crate) fn refresh(&mut self, now: Instant, alone: bool) {
        let reading = match self.written {
            Some(before) => self.measure(now.saturating_duration_since(before), alone),
            // Before the first process there is next to nothing to find, and somebody waits for it
            // to start.
            None => Reading { tasks: Tasks::AGENT_ALONE, ..Reading::default() },
        };
        self.written = Some(now);
        self.write(&reading).ok();
        self.cost = now.elapsed();
    }

    fn measure(&mut self, elapsed: Duration, alone: bool) -> Reading {
        let gauges = &self.gauges;
        let tasks = if alone { Tasks::AGENT_ALONE } else { Tasks::look() };
        let reading = Reading {
            memory: Memory::parse(&read(gauges.memory_used.as_ref()), &read(gauges.memory_stat.as_ref())),
            cpu: ProcessorTime::parse(&read(gauges.cpu_used.as_ref())),
            tasks: tasks.with_last_pid(&read(gauges.kernel_load.as_ref())),
        };
        let worked = reading.cpu.total().saturating_sub(self.cpu.total());
        self.load.pass(elapsed, reading.tasks.active(), worked);
        self.cpu = reading.cpu;
        reading
    }

    fn write(&mut self, reading: &Reading) -> Result<(), Errno> {
        let up = boot_clock().saturating_sub(self.began);
        let could_work = up.saturating_mul(self.size.cpus);
        self.idle = self.idle.max(could_work.saturating_sub(reading.cpu.total()));
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let processors = processor::Figures {
            cpus: self.size.cpus,
            used: reading.cpu,
            idle: self.idle,
            switched_on: since_epoch.saturating_sub(up).as_secs(),
        };
        self.covers.meminfo.write(&reading.memory.text(self.size.memory_bytes))?;
        self.covers.stat.write(&processors.text(&reading.tasks))?;
        // The uptime is that of the next writing: `ps` subtracts from it the start of processes
        // that began meanwhile.
        let ahead = up.saturating_add(self.interval());
        self.covers.uptime.write(&processor::uptime_text(ahead, self.idle))?;
        self.covers.loadavg.write(&self.load.text(&reading.tasks))
    }
}

/// Time since the machine was switched on, where the kernel has time namespaces; else the host's.
pub(crate) fn boot_clock() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

fn read(gauge: Option<&OwnedFd>) -> String {
    let Some(gauge) = gauge else { return String::new() };
    let mut text = Vec::with_capacity(GAUGE_BYTES);
    rustix::io::pread(gauge, rustix::buffer::spare_capacity(&mut text), 0).ok();
    String::from_utf8(text).unwrap_or_default()
}
