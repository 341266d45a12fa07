use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// How an answer's bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
}

/// One coding, with the client's weight for it in thousandths.
type Weighed<'a> = (&'a str, u32);

impl Coding {
    /// The coding that the client wants; `None` if it takes neither of ours. Libraries send a list
    /// of several codings unasked, and packing costs more time than it saves on most ways to a
    /// sandbox: gzip is for clients that ask for it alone, or want it more than the plain bytes.
    pub(super) fn wanted(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let listed: Vec<Weighed<'_>> =
            values.flat_map(|value| value.split(',')).filter_map(|item| weigh(item.trim())).collect();
        let of = |name: &str| listed.iter().find(|(listed, _)| listed.eq_ignore_ascii_case(name));
        let any = of("*").map(|(_, weight)| *weight);
        let gzip = of("gzip").map(|(_, weight)| *weight).or(any).unwrap_or(0);
        let identity =
            of("identity").map(|(_, weight)| *weight).or_else(|| any.filter(|weight| *weight == 0));
        let alone = listed.len() == 1 && of("gzip").is_some();
        let preferred = alone || identity.is_some_and(|identity| gzip > identity);
        match (gzip > 0, identity != Some(0)) {
            (true, true) if preferred => Some(Self::Gzip),
            (_, true) => Some(Self::Identity),
            (true, false) => Some(Self::Gzip),
            (false, false) => None,
        }
    }
}

fn weigh(item: &str) -> Option<Weighed<'_>> {
    let (name, rest) = item.split_once(';').unwrap_or((item, ""));
    let weight = match rest.trim().strip_prefix("q=") {
        Some(text) => thousandths(text.trim())?,
        None => 1000,
    };
    (!name.trim().is_empty()).then_some((name.trim(), weight))
}

/// `1`, `0.5` and the like, with up to three digits behind the point.
fn thousandths(text: &str) -> Option<u32> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let digits = rest.len() <= 3 && rest.bytes().all(|byte| byte.is_ascii_digit());
    let part = digits.then(|| format!("{rest:0<3}").parse::<u32>().ok()).flatten()?;
    match whole {
        "0" => Some(part),
        "1" if part == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(value: &str) -> Option<Coding> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
        Coding::wanted(&headers)
    }

    #[test]
    fn who_asks_for_gzip_alone_gets_it_and_who_lists_what_it_knows_does_not() {
        assert_eq!(Coding::wanted(&HeaderMap::new()), Some(Coding::Identity));
        for value in
            ["gzip", "GZIP", "gzip;q=1.0", "gzip, identity;q=0", "gzip, identity;q=0.5", "gzip;q=0.5, *;q=0"]
        {
            assert_eq!(wanted(value), Some(Coding::Gzip), "{value}");
        }
        for value in
            ["gzip, deflate", "gzip, deflate, br, zstd", "identity", "br", "", "*", "gzip;q=0", "deflate"]
        {
            assert_eq!(wanted(value), Some(Coding::Identity), "{value}");
        }
        for value in ["identity;q=0", "br, identity;q=0", "gzip;q=0, *;q=0"] {
            assert_eq!(wanted(value), None, "{value}");
        }
    }
}
