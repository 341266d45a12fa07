//! Points in time, as the RPC messages carry them: seconds and nanoseconds, or RFC 3339 in JSON.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The first and the last second that four digits of a year can say.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// A point in time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub struct Timestamp {
    /// Since 1970, negative before.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Always forwards.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Timestamp {
    /// The same, moved into what the text can say where a clock or a file's time is absurd.
    fn bounded(self) -> Self {
        Self {
            seconds: self.seconds.clamp(*SECONDS.start(), *SECONDS.end()),
            nanos: self.nanos.clamp(0, 999_999_999),
        }
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self { seconds: seconds(after), nanos: nanos(after) },
            Err(before) => match before.duration() {
                before if before.subsec_nanos() == 0 => Self { seconds: -seconds(before), nanos: 0 },
                before => Self { seconds: -seconds(before) - 1, nanos: 1_000_000_000 - nanos(before) },
            },
        }
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(*SECONDS.end())
}

fn nanos(duration: Duration) -> i32 {
    duration.subsec_nanos().cast_signed()
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, nanos } = self.bounded();
        let moment = OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| fmt::Error)?;
        let (year, month, day) = moment.to_calendar_date();
        let ((hour, minute, second), month) = (moment.to_hms(), u8::from(month));
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match nanos {
            0 => {}
            _ if nanos % 1_000_000 == 0 => write!(formatter, ".{:03}", nanos / 1_000_000)?,
            _ if nanos % 1000 == 0 => write!(formatter, ".{:06}", nanos / 1000)?,
            _ => write!(formatter, ".{nanos:09}")?,
        }
        formatter.write_str("Z")
    }
}

/// Why a text is no point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a point in time as RFC 3339 writes it, such as 2026-01-31T12:00:00Z")]
pub struct TimestampError;

impl std::str::FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        // `time` would drop digits after the ninth.
        let most_digits = text.bytes().skip(20).take_while(u8::is_ascii_digit).count() <= 9;
        let moment = OffsetDateTime::parse(text, &Rfc3339).ok().filter(|_| most_digits);
        let moment = moment.ok_or(TimestampError)?;
        let (seconds, nanos) = (moment.unix_timestamp(), moment.nanosecond().cast_signed());
        SECONDS.contains(&seconds).then_some(Self { seconds, nanos }).ok_or(TimestampError)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_moments_are_written_as_they_are() {
        let cases = [
            (0, 0, "1970-01-01T00:00:00Z"),
            (951_782_400, 0, "2000-02-29T00:00:00Z"),
            (1_763_200_000, 500_000_000, "2025-11-15T09:46:40.500Z"),
            (1_763_200_000, 1_000, "2025-11-15T09:46:40.000001Z"),
            (-1, 999_999_999, "1969-12-31T23:59:59.999999999Z"),
            (*SECONDS.start(), 0, "0001-01-01T00:00:00Z"),
            (*SECONDS.end(), 0, "9999-12-31T23:59:59Z"),
        ];
        for (seconds, nanos, text) in cases {
            let moment = Timestamp { seconds, nanos };
            assert_eq!(moment.to_string(), text);
            assert_eq!(text.parse(), Ok(moment));
        }
    }

    #[test]
    fn zones_are_understood() {
        let noon: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        assert_eq!("2026-01-31T14:30:00+02:30".parse(), Ok(noon));
        assert_eq!("2026-01-31T11:00:00-01:00".parse(), Ok(noon));
        assert_eq!("2026-01-31 12:00:00.0z".parse(), Ok(noon));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "2026",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:00:00",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00.1234567890Z",
            "2026-01-31T12:00:00+2:00",
            "2026-01-31T12:00:00+",
            "20260-1-31T12:00:00Z",
            "+026-01-31T12:00:00Z",
            "2026-01-31T12:00:0éZ",
            "0001-01-01T00:00:00+01:00",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(TimestampError), "{text}");
        }
    }

    #[test]
    fn times_of_the_system_before_and_after_1970_are_the_same_moments() {
        let half = Duration::from_millis(500);
        assert_eq!(Timestamp::from(UNIX_EPOCH + half), Timestamp { seconds: 0, nanos: 500_000_000 });
        assert_eq!(Timestamp::from(UNIX_EPOCH - half), Timestamp { seconds: -1, nanos: 500_000_000 });
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_secs(2)), Timestamp { seconds: -2, nanos: 0 });
    }

    proptest! {
        #[test]
        fn every_moment_is_read_as_it_was_written(seconds in SECONDS, nanos in 0..1_000_000_000) {
            let moment = Timestamp { seconds, nanos };
            prop_assert_eq!(moment.to_string().parse(), Ok(moment));
        }

        #[test]
        fn no_text_is_fatal(text in "\\PC{0,40}") {
            let _: Result<Timestamp, _> = text.parse();
        }

        #[test]
        fn nearly_right_texts_are_not_fatal(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}[.0-9éZ+:-]{0,12}") {
            let _: Result<Timestamp, _> = text.parse();
        }

        #[test]
        fn absurd_times_are_written_all_the_same(seconds in any::<i64>(), nanos in any::<i32>()) {
            let text = Timestamp { seconds, nanos }.to_string();
            prop_assert!(text.parse::<Timestamp>().is_ok(), "{}", text);
        }
    }
}
