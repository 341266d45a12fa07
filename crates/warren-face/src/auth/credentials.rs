use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::Secret;

/// A key may stand alone in either.
const KEY_HEADERS: [&str; 2] = ["x-api-key", "x-api-token"];

/// The headers show no usable key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadCredentials;

/// The key that the headers show; `None` if they show none. A header that is there but wrong is an
/// error, and so are two different keys: nothing falls through to another method.
pub(crate) fn shown(headers: &HeaderMap) -> Result<Option<Secret>, BadCredentials> {
    let bearer = only(headers, AUTHORIZATION.as_str())?.map(bearer).transpose()?;
    let mut shown = bearer;
    for name in KEY_HEADERS {
        let plain: Option<Secret> =
            only(headers, name)?.map(|text| text.parse().map_err(|_| BadCredentials)).transpose()?;
        shown = match (shown, plain) {
            (Some(a), Some(b)) if a != b => return Err(BadCredentials),
            (shown, plain) => shown.or(plain),
        };
    }
    Ok(shown)
}

fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, BadCredentials> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| BadCredentials),
        (Some(_), Some(_)) => Err(BadCredentials),
    }
}

fn bearer(value: &str) -> Result<Secret, BadCredentials> {
    let (scheme, key) = value.split_once(' ').ok_or(BadCredentials)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(BadCredentials);
    }
    key.trim_start_matches(' ').parse().map_err(|_| BadCredentials)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef01234567";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_key_is_found_in_either_header_with_any_known_prefix() {
        for pair in [
            ("authorization", format!("Bearer {KEY}")),
            ("authorization", format!("bearer {KEY}")),
            ("authorization", format!("Bearer wrn_{KEY}")),
            ("x-api-key", KEY.to_owned()),
            ("x-api-key", format!("e2b_{KEY}")),
            ("x-api-token", KEY.to_owned()),
        ] {
            let found = shown(&headers(&[(pair.0, &pair.1)])).unwrap();
            assert_eq!(found, Some(KEY.parse().unwrap()), "{pair:?}");
        }
        assert_eq!(shown(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn both_headers_must_agree() {
        let bearer = format!("Bearer {KEY}");
        let same = headers(&[("authorization", &bearer), ("x-api-key", &format!("wrn_{KEY}"))]);
        assert!(shown(&same).unwrap().is_some());
        let other = headers(&[("authorization", &bearer), ("x-api-key", &KEY.replace('0', "1"))]);
        assert_eq!(shown(&other), Err(BadCredentials));
        let empty = headers(&[("authorization", &bearer), ("x-api-key", "")]);
        assert_eq!(shown(&empty), Err(BadCredentials));
    }

    #[test]
    fn whatever_is_not_exactly_a_key_is_refused() {
        for value in ["", "Bearer", "Bearer ", "Basic YTpi", KEY, &format!("Bearer {KEY}0")] {
            assert_eq!(shown(&headers(&[("authorization", value)])), Err(BadCredentials), "{value}");
        }
        for value in [&KEY[1..], &KEY.to_uppercase(), &format!("{KEY} "), &format!("abc_{KEY}")] {
            assert_eq!(shown(&headers(&[("x-api-key", value)])), Err(BadCredentials), "{value}");
        }
        assert_eq!(shown(&headers(&[("x-api-key", KEY), ("x-api-key", KEY)])), Err(BadCredentials));
    }
}
