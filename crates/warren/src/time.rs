//! Times as people read them.

use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How long ago an RFC 3339 time in UTC was; the text itself if it is none.
pub(crate) fn age_of(text: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match unix_seconds(text) {
        Some(then) => seconds_since(now.saturating_sub(then)),
        None => text.to_owned(),
    }
}

/// How long it is from one RFC 3339 time to another.
pub(crate) fn took(began: &str, ended: &str) -> Option<String> {
    Some(seconds_since(unix_seconds(ended)?.saturating_sub(unix_seconds(began)?)))
}

pub(crate) fn seconds_since(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
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
    }

    #[test]
    fn ages_have_one_unit() {
        assert_eq!([seconds_since(5), seconds_since(600), seconds_since(90_000)], ["5s", "10m", "25h"]);
    }
}
