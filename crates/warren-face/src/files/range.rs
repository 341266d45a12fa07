use http::HeaderMap;
use http::header::{IF_RANGE, RANGE};

/// Which part of a file is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    All,
    /// From a byte on, and up to a byte if one is named.
    From(u64, Option<u64>),
    /// So many bytes at the end.
    Last(u64),
}

impl Wanted {
    /// The part that the headers ask for. A header that cannot be understood, or that asks for
    /// several parts, is ignored; and so is one with a condition, since files here have no versions
    /// to compare.
    pub fn of(headers: &HeaderMap) -> Self {
        if headers.contains_key(IF_RANGE) {
            return Self::All;
        }
        headers.get(RANGE).and_then(|value| parse(value.to_str().ok()?)).unwrap_or(Self::All)
    }

    /// First byte and number of bytes, of a file of this size. `None` if there are no such bytes.
    pub fn within(self, size: u64) -> Option<(u64, u64)> {
        match self {
            Self::All => Some((0, size)),
            Self::From(first, _) if first >= size => None,
            Self::From(first, last) => {
                let last = last.unwrap_or(u64::MAX).min(size - 1);
                Some((first, last - first + 1))
            }
            Self::Last(0) => None,
            Self::Last(_) if size == 0 => None,
            Self::Last(count) => Some((size.saturating_sub(count), count.min(size))),
        }
    }
}

fn parse(text: &str) -> Option<Wanted> {
    let (unit, rest) = text.split_once('=')?;
    let (first, last) = rest.trim().split_once('-').filter(|_| unit.trim().eq_ignore_ascii_case("bytes"))?;
    match (first.trim(), last.trim()) {
        ("", count) => number(count).map(Wanted::Last),
        (first, "") => number(first).map(|first| Wanted::From(first, None)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Wanted::From(first, Some(last)))
        }
    }
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        assert_eq!(parse("bytes=0-9"), Some(Wanted::From(0, Some(9))));
        assert_eq!(parse("Bytes = 5-"), Some(Wanted::From(5, None)));
        assert_eq!(parse("bytes=-7"), Some(Wanted::Last(7)));
        for text in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "lines=0-1",
            "bytes=9-0",
            "bytes=0-1,3-4",
            "bytes=a-b",
            "bytes=+1-2",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_range_is_cut_to_the_file() {
        assert_eq!(Wanted::All.within(0), Some((0, 0)));
        assert_eq!(Wanted::From(2, Some(100)).within(10), Some((2, 8)));
        assert_eq!(Wanted::From(9, None).within(10), Some((9, 1)));
        assert_eq!(Wanted::From(10, None).within(10), None);
        assert_eq!(Wanted::From(0, Some(u64::MAX)).within(10), Some((0, 10)));
        assert_eq!(Wanted::Last(3).within(10), Some((7, 3)));
        assert_eq!(Wanted::Last(30).within(10), Some((0, 10)));
        assert_eq!((Wanted::Last(0).within(10), Wanted::Last(5).within(0)), (None, None));
    }
}
