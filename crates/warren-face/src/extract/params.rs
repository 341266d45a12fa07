use std::collections::{BTreeMap, HashSet};

use axum::extract::FromRequestParts;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use warren_core::PageRequest;

use crate::error::{ApiError, Code, parsed};
use crate::page::read_cursor;

/// The query of a request. That only known parameters are there, and single ones once, was checked
/// against the route's row.
#[derive(Debug, Clone, Default)]
pub struct Params(Vec<(String, String)>);

/// A parameter that a route takes in its query.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub name: &'static str,
    /// A name that it had before.
    pub formerly: Option<&'static str>,
    pub repeatable: bool,
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

impl Params {
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let broken = || ApiError::new(Code::InvalidRequest, "the query is not percent-encoded UTF-8");
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name).ok_or_else(broken)?, decode(value).ok_or_else(broken)?))
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    /// Denies what the route does not have.
    pub fn check(&self, known: &[Known]) -> Result<(), ApiError> {
        let mut given = HashSet::new();
        for (name, _) in &self.0 {
            let found =
                known.iter().find(|known| known.name == name || known.formerly == Some(name.as_str()));
            let found = found.ok_or_else(|| unknown(name, known))?;
            if !given.insert(found.name) && !found.repeatable {
                return Err(ApiError::invalid(name, format!("`{name}` was given twice")));
            }
        }
        Ok(())
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// As [`Params::parsed`], also under a name that it had before.
    pub fn parsed_as<T>(&self, name: &'static str, formerly: &'static str) -> Result<Option<T>, ApiError>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        self.parsed(self.given(name, formerly))
    }

    /// The name under which a value is there: the one that it had before, or its own.
    pub fn given(&self, name: &'static str, formerly: &'static str) -> &'static str {
        if self.text(name).is_none() && self.text(formerly).is_some() { formerly } else { name }
    }

    /// A value that is read from its text, such as an id.
    pub fn parsed<T>(&self, name: &'static str) -> Result<Option<T>, ApiError>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        self.text(name).map(|text| parsed(name, text)).transpose()
    }

    /// A whole number from `least` to `most`.
    pub fn number(&self, name: &'static str, least: u64, most: u64) -> Result<Option<u64>, ApiError> {
        let parse = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.then(|| text.parse::<u64>().ok()).flatten();
            let fits = number.filter(|number| (least..=most).contains(number));
            let wrong =
                || ApiError::invalid(name, format!("`{name}` must be a whole number from {least} to {most}"));
            fits.ok_or_else(wrong)
        };
        self.text(name).map(parse).transpose()
    }

    /// `true` or `false`; absent is false.
    pub fn flag(&self, name: &'static str) -> Result<bool, ApiError> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(ApiError::invalid(name, format!("`{name}` must be `true` or `false`"))),
        }
    }

    /// Repeated `name=key=value`.
    pub fn map(&self, name: &'static str) -> Result<BTreeMap<String, String>, ApiError> {
        let mut map = BTreeMap::new();
        for text in self.all(name) {
            let wrong = || ApiError::invalid(name, format!("write `{name}=KEY=VALUE`"));
            let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(wrong)?;
            map.insert(key.to_owned(), value.to_owned());
        }
        Ok(map)
    }

    /// `limit` and `cursor`.
    pub fn page(&self) -> Result<PageRequest, ApiError> {
        let default = PageRequest::default();
        let limit = self.number("limit", 1, u64::from(PageRequest::MOST))?;
        let limit = limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(default.limit);
        let after = self.text("cursor").map(read_cursor).transpose()?;
        Ok(PageRequest { limit, after })
    }
}

fn unknown(name: &str, known: &[Known]) -> ApiError {
    let names: Vec<String> = known.iter().map(|known| format!("`{}`", known.name)).collect();
    let there_are =
        if names.is_empty() { "it takes none".to_owned() } else { format!("there are {}", names.join(", ")) };
    let detail = format!("there is no parameter `{}` here: {there_are}", shorten(name));
    ApiError::invalid(shorten(name), detail)
}

/// `None` for what is not percent-encoded UTF-8.
fn decode(text: &str) -> Option<String> {
    let escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().ok()?;
    text.split('%').skip(1).all(escape).then(|| decoded.into_owned())
}

fn shorten(name: &str) -> String {
    name.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(query: &str) -> Params {
        Params::parse(query).unwrap()
    }

    #[test]
    fn texts_are_decoded() {
        assert_eq!(params("a=x+y%20%C3%A4&b").text("a"), Some("x y ä"));
        assert_eq!(params("a&b=").text("a"), Some(""));
        for query in ["a=%", "a=%4", "a=%zz", "a=%ff", "%ff=1"] {
            assert_eq!(Params::parse(query).unwrap_err().status().as_u16(), 400, "{query}");
        }
    }

    #[test]
    fn numbers_and_flags_are_strict() {
        assert_eq!(params("n=007").number("n", 1, 9).unwrap(), Some(7));
        for query in ["n=", "n=-1", "n=+1", "n=1.0", "n=10", "n=0", "n=99999999999999999999", "n=%20"] {
            let error = params(query).number("n", 1, 9).unwrap_err();
            assert_eq!(error.problem().field.as_deref(), Some("n"), "{query}");
        }
        assert!(params("f=true").flag("f").unwrap() && !params("f=false").flag("f").unwrap());
        assert!(params("f=1").flag("f").is_err() && params("f").flag("f").is_err());
    }

    #[test]
    fn maps_come_from_repeated_parameters() {
        let map = params("label=a=b=c&label=d=").map("label").unwrap();
        assert_eq!(map, BTreeMap::from([("a".into(), "b=c".into()), ("d".into(), String::new())]));
        assert!(params("label=a").map("label").is_err() && params("label==b").map("label").is_err());
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        let known = [
            Known { name: "a", formerly: Some("b"), repeatable: false },
            Known { name: "m", formerly: None, repeatable: true },
        ];
        assert!(params("a=1&m=1&m=2").check(&known).is_ok() && params("b=1").check(&known).is_ok());
        assert!(params("a=1&a=1").check(&known).is_err() && params("a=1&b=1").check(&known).is_err());
        let unknown = params("x=1").check(&known).unwrap_err().problem();
        assert_eq!(unknown.field.as_deref(), Some("x"));
        assert_eq!(unknown.detail, "there is no parameter `x` here: there are `a`, `m`");
        assert!(params("x=1").check(&[]).unwrap_err().problem().detail.ends_with("it takes none"));
        assert_eq!((params("b=1").given("a", "b"), params("").given("a", "b")), ("b", "a"));
    }
}
