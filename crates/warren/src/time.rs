//! Times as people read them, and durations as servers take them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The time since an RFC 3339 time in UTC, or the text itself if it is none.
pub(crate) fn age_of(text: &str) -> String {
    unix_seconds(text).map_or_else(|| text.to_owned(), age_since)
}

/// The time since this many seconds after 1970.
pub(crate) fn age_since(unix_seconds: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    in_one_unit(now.saturating_sub(unix_seconds))
}

/// The time until an RFC 3339 time in UTC, or the text itself if it is none.
pub(crate) fn time_until(text: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    unix_seconds(text).map_or_else(|| text.to_owned(), |then| in_one_unit(then.saturating_sub(now)))
}

/// The time from one RFC 3339 time to another.
pub(crate) fn took(began: &str, ended: &str) -> Option<String> {
    Some(in_one_unit(unix_seconds(ended)?.saturating_sub(unix_seconds(began)?)))
}

/// Whole seconds, as the server counts them; a part of one counts as one.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Seconds in the one unit that fits best.
pub(crate) fn in_one_unit(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Milliseconds, as people say them.
pub(crate) fn from_milliseconds(milliseconds: u64) -> String {
    match milliseconds {
        0..1000 => format!("{milliseconds}ms"),
        1000..10_000 => format!("{:.1}s", milliseconds as f64 / 1000.0),
        _ => in_one_unit(milliseconds / 1000),
    }
}

/// `2026-01-31T12:00:00.000Z`, as the server writes it.
fn unix_seconds(text: &str) -> Option<u64> {
    OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        assert_eq!(unix_seconds("1970-01-01T00:00:00.000Z"), Some(0));
        assert_eq!(unix_seconds("2000-02-29T12:34:56.000Z"), Some(951_827_696));
        assert_eq!(unix_seconds("2026-11-15T00:00:00Z"), Some(1_794_700_800));
        assert_eq!(unix_seconds("yesterday"), None);
        assert_eq!(age_of("yesterday"), "yesterday");
        assert_eq!(time_until("2000-02-29T12:34:56.000Z"), "0s");
    }

    #[test]
    fn ages_have_one_unit() {
        assert_eq!(whole_seconds(Duration::from_millis(1001)), 2);
        assert_eq!([350, 1240, 61_000].map(from_milliseconds), ["350ms", "1.2s", "61s"]);
        assert_eq!([in_one_unit(5), in_one_unit(600), in_one_unit(90_000)], ["5s", "10m", "25h"]);
    }
}
