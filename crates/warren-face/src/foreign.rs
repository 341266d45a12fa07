//! Requests that pages of other sites make, where no key is asked for.
//!
//! Without keys everybody who can connect may do everything, and a browser connects for every page
//! that its user looks at. So there a request must be to a host of this machine's own, for a
//! foreign name that leads here is a page's trick to be of the same origin; its `Origin`, if it has
//! one, must be the server itself; and what the browser says of where it comes from
//! (`Sec-Fetch-Site`) must not be elsewhere, unless somebody only follows a link. Programs that are
//! no browsers say none of this and are not held up. With keys none of it matters: no page has one.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Method};
use warren_core::HostName;

use crate::desk::Desk;
use crate::error::{ApiError, Code};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const DESTINATION: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The part of a request that shows that it comes from a page of another site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    Host,
    Origin,
    Site,
}

/// A layer: refuses what a page of elsewhere asks of a server without keys.
pub(crate) async fn layer(State(desk): State<Desk>, request: Request, next: Next) -> Response {
    if desk.config.auth.enabled {
        return next.run(request).await;
    }
    match check(&desk.config.ports.domain, &request) {
        Ok(()) => next.run(request).await,
        Err(foreign) => ApiError::from(foreign).into_response(),
    }
}

fn check(domain: &HostName, request: &Request) -> Result<(), Foreign> {
    let authority = authority(request);
    if authority.as_deref().is_some_and(|authority| !is_own(domain, authority)) {
        return Err(Foreign::Host);
    }
    if !is_of_own_page(request) {
        return Err(Foreign::Origin);
    }
    if is_of_elsewhere(request.headers()) && !is_navigation(request) {
        return Err(Foreign::Site);
    }
    Ok(())
}

/// True unless a page of another origin makes the request: what its `Origin` says is the server
/// itself.
pub fn is_of_own_page(request: &Request) -> bool {
    let authority = authority(request);
    let own = |origin: &str| authority.as_deref().is_some_and(|own| is_same(own, origin));
    origins(request.headers()).all(|origin| origin.is_some_and(own))
}

/// True if the host is this machine, under a name that nobody else can give it.
pub fn is_own(domain: &HostName, authority: &str) -> bool {
    let (host, _) = split(authority);
    if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    let Ok(host) = host.parse::<HostName>() else { return false };
    let local: Option<HostName> = "localhost".parse().ok();
    let mut domains = [Some(domain), local.as_ref()].into_iter().flatten();
    domains.any(|domain| host == *domain || host.is_below(domain))
}

/// The hosts with ports that the request says it was made from; `None` for one that says nothing of
/// use.
pub fn origins(headers: &HeaderMap) -> impl Iterator<Item = Option<&str>> {
    let host = |text: &'_ str| text.split_once("://").map(|(_, host)| host.len());
    headers.get_all(ORIGIN).iter().map(move |value| {
        let text = value.to_str().ok()?;
        host(text).map(|length| &text[text.len() - length..])
    })
}

/// True if the browser says that another site's page makes the request.
pub fn is_of_elsewhere(headers: &HeaderMap) -> bool {
    headers.get_all(SITE).iter().any(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"))
}

/// The same server, which may be called `localhost` in one place and by its address in the other.
/// Names below `localhost` are sandboxes'.
fn is_same(own: &str, origin: &str) -> bool {
    if own.eq_ignore_ascii_case(origin) {
        return true;
    }
    let is_loopback = |host: &str| {
        host.eq_ignore_ascii_case("localhost")
            || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    let ((own, own_port), (origin, origin_port)) = (split(own), split(origin));
    own_port == origin_port && is_loopback(own) && is_loopback(origin)
}

/// A person goes somewhere, which changes nothing.
fn is_navigation(request: &Request) -> bool {
    let says = |name: &HeaderName, word: &str| {
        request.headers().get(name).is_some_and(|value| value.as_bytes() == word.as_bytes())
    };
    matches!(*request.method(), Method::GET | Method::HEAD)
        && says(&MODE, "navigate")
        && says(&DESTINATION, "document")
}

fn authority(request: &Request) -> Option<String> {
    let header =
        || request.headers().get(HOST).map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
    request.uri().authority().map(|authority| authority.as_str().to_owned()).or_else(header)
}

/// A host and its port.
fn split(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

impl From<Foreign> for ApiError {
    fn from(foreign: Foreign) -> Self {
        let (field, detail) = match foreign {
            Foreign::Host => (
                "Host",
                "without keys only hosts of this machine are answered: localhost, a loopback address, or a name in ports.domain",
            ),
            Foreign::Origin => ("Origin", "without keys a page of another origin may ask nothing here"),
            Foreign::Site => ("Sec-Fetch-Site", "without keys a page of another site may ask nothing here"),
        };
        Self::new(Code::ForeignRequest, detail).field(field)
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn found(method: &str, headers: &[(&str, &str)]) -> Result<(), Foreign> {
        let domain = "box.example".parse().unwrap();
        let mut request = Request::builder().method(method).uri("/v1/sandboxes");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&domain, &request.body(Body::empty()).unwrap())
    }

    #[test]
    fn only_hosts_that_nobody_else_can_name_are_its_own() {
        for host in [
            "127.0.0.1:7777",
            "127.8.8.8",
            "[::1]:7777",
            "localhost",
            "LOCALHOST:7777",
            "api.localhost:7777",
            "box.example",
            "api.box.example",
        ] {
            assert_eq!(found("POST", &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example:7777",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "xlocalhost",
            "box.example.evil",
            "10.0.0.1",
            "0.0.0.0:7777",
            "",
            "a@localhost:x@evil",
        ] {
            assert_eq!(found("GET", &[("host", host)]), Err(Foreign::Host), "{host}");
        }
    }

    #[test]
    fn an_origin_is_the_server_itself_or_foreign() {
        let from = |host, origin| found("GET", &[("host", host), ("origin", origin)]);
        assert_eq!(from("127.0.0.1:7777", "http://127.0.0.1:7777"), Ok(()));
        assert_eq!(from("127.0.0.1:7777", "http://localhost:7777"), Ok(()));
        for origin in [
            "http://evil.example",
            "null",
            "http://127.0.0.1:3000",
            "http://8000-sbxaaaaaaaaaaaaaaaaaaaaaaaaaa.localhost:7777",
            "http://evil.example:7777",
            "http://127.0.0.1:7777@evil.example",
            "http://127.0.0.1:7777.evil.example",
        ] {
            assert_eq!(from("127.0.0.1:7777", origin), Err(Foreign::Origin), "{origin}");
        }
    }

    #[test]
    fn another_site_may_only_lead_people_here() {
        let host = ("host", "localhost:7777");
        for (site, expected) in [
            ("none", Ok(())),
            ("same-origin", Ok(())),
            ("same-site", Err(Foreign::Site)),
            ("cross-site", Err(Foreign::Site)),
            ("odd", Err(Foreign::Site)),
        ] {
            assert_eq!(found("GET", &[host, ("sec-fetch-site", site)]), expected, "{site}");
        }
        let link = [
            host,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!((found("GET", &link), found("POST", &link)), (Ok(()), Err(Foreign::Site)));
        assert_eq!(
            found("GET", &[link[0], link[1], link[2], ("sec-fetch-dest", "iframe")]),
            Err(Foreign::Site)
        );
    }
}
