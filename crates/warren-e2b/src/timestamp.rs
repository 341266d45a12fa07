//! Points in time, as the RPC messages carry them: seconds and nanoseconds, or RFC 3339 in JSON.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The first and the last second that four digits of a year can say.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
const DAY: i64 = 86_400;

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
        let (year, month, day) = date(seconds.div_euclid(DAY));
        let second = seconds.rem_euclid(DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
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

/// The date of a day since 1970. Years begin in March here, so that the leap day is the last of its year.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day since 1970 of a date.
fn day(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Why a text is no point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a point in time as RFC 3339 writes it, such as 2026-01-31T12:00:00Z")]
pub struct TimestampError;

impl std::str::FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let (moment, rest) = text.split_at_checked(19).ok_or(TimestampError)?;
        let zone_at = rest.find(['Z', 'z', '+', '-']).ok_or(TimestampError)?;
        let (fraction, zone) = rest.split_at(zone_at);
        let seconds = local_seconds(moment)? - offset(zone)?;
        if !SECONDS.contains(&seconds) {
            return Err(TimestampError);
        }
        Ok(Self { seconds, nanos: fraction_nanos(fraction)? })
    }
}

/// Seconds since 1970 of a date and a time of day, as if they were in UTC.
fn local_seconds(text: &str) -> Result<i64, TimestampError> {
    let bytes = text.as_bytes();
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| bytes[*at] != *mark) || !matches!(bytes[10], b'T' | b't' | b' ') {
        return Err(TimestampError);
    }
    let number = |range: std::ops::Range<usize>| digits(text.get(range).ok_or(TimestampError)?);
    let (year, month, of_month) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let day = day(year, month, of_month);
    if date(day) != (year, month, of_month) || hour > 23 || minute > 59 || second > 59 {
        return Err(TimestampError);
    }
    Ok(day * DAY + hour * 3600 + minute * 60 + second)
}

fn fraction_nanos(text: &str) -> Result<i32, TimestampError> {
    if text.is_empty() {
        return Ok(0);
    }
    let fraction =
        text.strip_prefix('.').filter(|rest| (1..=9).contains(&rest.len())).ok_or(TimestampError)?;
    let nanos = digits(&format!("{fraction:0<9}"))?;
    i32::try_from(nanos).map_err(|_| TimestampError)
}

/// What a zone is ahead of UTC, in seconds.
fn offset(zone: &str) -> Result<i64, TimestampError> {
    if zone.eq_ignore_ascii_case("z") {
        return Ok(0);
    }
    let (sign, rest) = zone.split_at_checked(1).ok_or(TimestampError)?;
    let (hours, minutes) = rest.split_once(':').ok_or(TimestampError)?;
    if hours.len() != 2 || minutes.len() != 2 {
        return Err(TimestampError);
    }
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    if hours > 23 || minutes > 59 {
        return Err(TimestampError);
    }
    let ahead = hours * 3600 + minutes * 60;
    Ok(if sign == "-" { -ahead } else { ahead })
}

fn digits(text: &str) -> Result<i64, TimestampError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TimestampError);
    }
    text.parse().map_err(|_| TimestampError)
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
