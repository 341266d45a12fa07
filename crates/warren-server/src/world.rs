use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use warren_core::{Clock, Random};

/// The machine's clocks.
#[derive(Debug)]
pub struct MachineClock {
    boot_id: String,
}

impl MachineClock {
    /// Reads what names this boot of the machine; the rest is asked each time.
    pub fn new() -> io::Result<Self> {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        Ok(Self { boot_id: text.trim().to_owned() })
    }
}

impl Clock for MachineClock {
    /// Through the C library, so that a test can shift this clock and no other.
    fn unix_ms(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    }

    fn boot_ms(&self) -> u64 {
        let now = clock_gettime(ClockId::Boottime);
        let (seconds, nanoseconds) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
        seconds.unwrap_or(0).saturating_mul(1000) + nanoseconds.unwrap_or(0) / 1_000_000
    }

    fn boot_id(&self) -> &str {
        &self.boot_id
    }
}

/// The kernel's randomness.
#[derive(Debug)]
pub struct MachineRandom;

impl Random for MachineRandom {
    fn bits(&self) -> [u8; 16] {
        let mut bits = [0; 16];
        // Keys and ids are made of it, and a guess instead would be a key for everybody.
        getrandom::fill(&mut bits).expect("the kernel gives randomness since it has booted");
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_and_numbers_differ() {
        let clock = MachineClock::new().unwrap();
        let before = clock.boot_ms();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(clock.boot_ms() >= before + 5);
        assert!(clock.unix_ms() > 1_600_000_000_000);
        assert_eq!(clock.boot_id().len(), 36);
        assert_ne!(MachineRandom.bits(), MachineRandom.bits());
    }
}
