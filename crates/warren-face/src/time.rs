const DAY_MS: u64 = 86_400_000;

/// The end of the year 9999.
const LAST: u64 = 253_402_300_799_999;

/// A moment as RFC 3339 writes it, in UTC with milliseconds. Moments past the year 9999, which it cannot write, are shown as its end.
pub fn rfc3339(unix_ms: u64) -> String {
    let unix_ms = unix_ms.min(LAST);
    let (year, month, day) = date(unix_ms / DAY_MS);
    let of_day = unix_ms % DAY_MS;
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, millisecond) = (of_day / 1000 % 60, of_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

/// A moment as HTTP writes it, in whole seconds.
pub fn http_date(unix_ms: u64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let unix_ms = unix_ms.min(LAST);
    let (days, of_day) = (unix_ms / DAY_MS, unix_ms % DAY_MS / 1000);
    let (year, month, day) = date(days);
    let name = |names: &[&'static str], at: u64| names[usize::try_from(at).unwrap_or(0) % names.len()];
    let (weekday, month) = (name(&WEEKDAYS, days % 7), name(&MONTHS, month - 1));
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Year, month and day of a number of days since 1970. Years are counted from March, so that the odd day comes last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
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

    #[test]
    fn no_day_is_left_out_or_told_twice() {
        let mut before = date(0);
        for days in 1..200_000 {
            let today = date(days);
            let next_day = today == (before.0, before.1, before.2 + 1) && today.2 <= 31;
            let next_month = today == (before.0, before.1 + 1, 1) && before.2 >= 28;
            let next_year = today == (before.0 + 1, 1, 1) && (before.1, before.2) == (12, 31);
            assert!(next_day || next_month || next_year, "{before:?} {today:?}");
            before = today;
        }
    }
}
