use std::time::{Duration, UNIX_EPOCH};

use time::OffsetDateTime;

/// The end of the year 9999, after which neither format can write anything.
const LAST_MS: u64 = 253_402_300_799_999;

/// A moment as RFC 3339 writes it, in UTC with milliseconds.
pub fn rfc3339(unix_ms: u64) -> String {
    let moment = OffsetDateTime::UNIX_EPOCH + Duration::from_millis(unix_ms.min(LAST_MS));
    let (year, month, day) = moment.to_calendar_date();
    let (hour, minute, second, millisecond) = moment.to_hms_milli();
    let month = u8::from(month);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

/// A moment as HTTP writes it, in whole seconds.
pub fn http_date(unix_ms: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(unix_ms.min(LAST_MS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_everybody_writes_them() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599_001, "2024-12-31T23:59:59.001Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ];
        for (unix_ms, text) in cases {
            assert_eq!(rfc3339(unix_ms), text);
        }
    }

    #[test]
    fn moments_of_http_have_the_day_of_the_week() {
        for (unix_ms, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777_999, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (1_709_164_800_000, "Thu, 29 Feb 2024 00:00:00 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(http_date(unix_ms), text);
        }
    }
}
