use serde::{Deserialize, Serialize};

use crate::field::Field;
use crate::quantity::{ByteSize, Cpus};

/// The limits of a sandbox. Every limit is always on: there is no value that means "unlimited".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Memory of all processes with their page cache and temporary file systems. There is no swap.
    pub memory: ByteSize,
    pub cpus: Cpus,
    /// Processes and threads together.
    pub pids: u32,
    /// Bytes that the sandbox itself writes to its root.
    pub disk: ByteSize,
    /// Files and directories the sandbox itself makes in its root.
    pub inodes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Longest life of the sandbox, in seconds.
    pub lifetime_s: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: ByteSize::mib(4096),
            cpus: Cpus::from_milli(2000),
            pids: 1024,
            disk: ByteSize::gib(10),
            inodes: 1_000_000,
            open_files: 4096,
            lifetime_s: 4 * 3600,
        }
    }
}

/// A limit is outside what makes sense; the text names it and the accepted range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be between {least} and {most}, got {got}")]
pub struct LimitsError {
    pub field: Field,
    pub least: String,
    pub most: String,
    pub got: String,
}

impl Limits {
    /// Checks every limit against the range a machine can hold.
    pub fn validate(&self) -> Result<(), LimitsError> {
        within(Field::Memory, self.memory, ByteSize::mib(16), ByteSize::gib(4096))?;
        within(Field::Cpus, self.cpus, Cpus::from_milli(10), Cpus::from_milli(1_024_000))?;
        within(Field::Pids, self.pids, 4, 4_000_000)?;
        within(Field::Disk, self.disk, ByteSize::mib(8), ByteSize::gib(1 << 20))?;
        within(Field::Inodes, self.inodes, 64, 1 << 40)?;
        within(Field::OpenFiles, self.open_files, 32, 1_048_576)?;
        within(Field::Lifetime, self.lifetime_s, 1, 366 * 86_400)
    }
}

fn within<T: PartialOrd + ToString>(field: Field, got: T, least: T, most: T) -> Result<(), LimitsError> {
    if got >= least && got <= most {
        return Ok(());
    }
    Err(LimitsError { field, least: least.to_string(), most: most.to_string(), got: got.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(Limits::default().validate(), Ok(()));
    }

    #[test]
    fn zero_never_means_unlimited() {
        let zeroed: [fn(&mut Limits); 7] = [
            |l| l.memory = ByteSize(0),
            |l| l.cpus = Cpus::from_milli(0),
            |l| l.pids = 0,
            |l| l.disk = ByteSize(0),
            |l| l.inodes = 0,
            |l| l.open_files = 0,
            |l| l.lifetime_s = 0,
        ];
        for zero in zeroed {
            let mut limits = Limits::default();
            zero(&mut limits);
            assert!(limits.validate().is_err(), "{limits:?}");
        }
    }

    #[test]
    fn the_error_names_the_field_and_the_range() {
        let limits = Limits { memory: ByteSize(1), ..Limits::default() };
        let error = limits.validate().unwrap_err().to_string();
        assert_eq!(error, "memory must be between 16 MiB and 4 TiB, got 1 B");
    }
}
