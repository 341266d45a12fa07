use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A number of bytes, written by people as `512m`, `10g` or `1048576`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteSize(pub u64);

/// A share of processors in thousandths, written by people as `2` or `0.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cpus {
    milli: u32,
}

/// A written quantity could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("`{0}` is not a size: write a whole number with k, m, g or t, such as 512m or 10g")]
    Size(String),
    #[error("`{0}` is not a number of processors: write 2 or 0.5, in steps of 0.001")]
    Cpus(String),
    #[error("`{0}` is not a duration: write a whole number with ms, s, m, h or d, such as 90s or 10m")]
    Duration(String),
}

impl ByteSize {
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    pub const fn gib(count: u64) -> Self {
        Self(count << 30)
    }
}

impl FromStr for ByteSize {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let units = [("", 0), ("k", 10), ("m", 20), ("g", 30), ("t", 40)];
        let lower = text.to_ascii_lowercase();
        let short = lower.strip_suffix("ib").or_else(|| lower.strip_suffix('b')).unwrap_or(&lower);
        let (number, unit) = split_number(short);
        let shift = units.iter().find(|(name, _)| *name == unit).map(|(_, shift)| *shift);
        let parsed =
            number.parse::<u64>().ok().zip(shift).and_then(|(count, shift)| count.checked_mul(1 << shift));
        parsed.map(Self).ok_or_else(|| QuantityError::Size(text.to_owned()))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        match units.iter().find(|(_, shift)| self.0 >= 1 << shift) {
            Some((unit, shift)) if self.0.trailing_zeros() >= *shift => {
                write!(f, "{} {unit}", self.0 >> shift)
            }
            Some((unit, shift)) => write!(f, "{:.1} {unit}", self.0 as f64 / (1u64 << shift) as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

impl Cpus {
    pub const fn from_milli(milli: u32) -> Self {
        Self { milli }
    }

    pub const fn milli(self) -> u32 {
        self.milli
    }

    /// Processors a program may see: the share rounded up.
    pub fn visible(self) -> u32 {
        self.milli.div_ceil(1000)
    }
}

impl FromStr for Cpus {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let milli = (digits(whole) && digits(part) && part.len() <= 3)
            .then(|| format!("{whole}{part:0<3}").parse::<u32>().ok())
            .flatten();
        milli.map(|milli| Self { milli }).ok_or_else(|| QuantityError::Cpus(text.to_owned()))
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = format!("{:03}", self.milli % 1000);
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{}", self.milli / 1000),
            fraction => write!(f, "{}.{fraction}", self.milli / 1000),
        }
    }
}

/// Reads `90s`, `10m`, `1h`, `250ms` or a bare number of seconds.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let (number, unit) = split_number(text);
    let milliseconds = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => 0,
    };
    let parsed =
        number.parse::<u64>().ok().filter(|_| milliseconds > 0).and_then(|n| n.checked_mul(milliseconds));
    parsed.map(Duration::from_millis).ok_or_else(|| QuantityError::Duration(text.to_owned()))
}

/// Cuts `512m` into `512` and `m`.
fn split_number(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in
            [("0", 0), ("17", 17), ("1k", 1024), ("512m", 512 << 20), ("2GiB", 2 << 30), ("1tb", 1 << 40)]
        {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        assert_eq!(ByteSize::mib(512).to_string(), "512 MiB");
        assert_eq!(ByteSize(1_500_000).to_string(), "1.4 MiB");
        assert_eq!(ByteSize(12).to_string(), "12 B");
    }

    #[test]
    fn wrong_sizes_are_refused() {
        for text in [
            "",
            "m",
            "-1",
            "1.5g",
            "1x",
            "1 g",
            "99999999999999999999",
            "18446744073709551615k",
            "0x10",
            "1mm",
        ] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn processors_are_read_and_written() {
        for (text, milli) in [("2", 2000), ("0.5", 500), ("1.25", 1250), ("0.001", 1)] {
            let cpus: Cpus = text.parse().unwrap();
            assert_eq!((cpus.milli(), cpus.to_string().as_str()), (milli, text));
        }
        for text in ["", ".5", "1.", "-1", "NaN", "1e3", "0.0001", "9999999999"] {
            assert!(text.parse::<Cpus>().is_err(), "{text}");
        }
        assert_eq!(Cpus::from_milli(1001).visible(), 2);
    }

    #[test]
    fn durations_are_read() {
        for (text, ms) in [("5", 5000), ("250ms", 250), ("90s", 90_000), ("10m", 600_000), ("4h", 14_400_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1s", "1.5s", "1w", "99999999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
