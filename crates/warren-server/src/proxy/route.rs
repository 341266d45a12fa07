use std::sync::Arc;

use axum::extract::Request;
use http::header::HOST;
use http::{HeaderMap, Uri, Version};
use warren_core::{Host, HostName, SandboxId};
use warren_face::port::parse_port;

/// A port of a sandbox, and how the request named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) sandbox: SandboxId,
    pub(crate) port: u16,
    /// The host that the client wrote, with its port.
    pub(crate) authority: String,
    /// The host is this port's own: cookies are for nobody else then.
    pub(crate) own_host: bool,
}

/// The part of the server that answers a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Api,
    Port(Target),
}

/// Why a request names no port that could be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Misdirected {
    Host,
    TwoHosts,
    Label,
    OneHeader,
    Repeated,
    Sandbox,
    Port,
    Disagreeing,
    /// It names a port of a sandbox below a domain that is not this server's.
    Domain,
    /// An id that could be one of another server's, so that there is no such sandbox here.
    Stranger(String),
}

impl Misdirected {
    pub(super) fn sentence(&self) -> &'static str {
        match self {
            Self::Host => "the request's host is no host",
            Self::TwoHosts => "the request names two hosts",
            Self::Label => "the host is not PORT-SANDBOX.DOMAIN",
            Self::OneHeader => {
                "the sandbox and the port are named by two headers, and one of them is missing"
            }
            Self::Repeated => "a header that names the sandbox or the port was sent twice",
            Self::Sandbox => "that is not the id of a sandbox",
            Self::Port => "a port is a number from 1 to 65535",
            Self::Disagreeing => "the host and the headers name different ports",
            Self::Domain => "no sandbox of this server has a name below that domain",
            Self::Stranger(_) => "The sandbox was not found",
        }
    }
}

/// Names the sandbox in a request whose host does not.
pub(crate) const SANDBOX_HEADER: &str = ROUTING_HEADERS[0].0;
/// Names the port in a request whose host does not.
pub(crate) const PORT_HEADER: &str = ROUTING_HEADERS[0].1;

/// Pairs of headers that name a sandbox and a port.
pub(super) const ROUTING_HEADERS: [(&str, &str); 2] =
    [("warren-sandbox-id", "warren-sandbox-port"), ("e2b-sandbox-id", "e2b-sandbox-port")];

/// The domains below which sandboxes have names: the configured one, and the one that every machine
/// has for itself.
pub(super) fn domains(configured: &HostName) -> Arc<[HostName]> {
    let local: Option<HostName> = "localhost".parse().ok().filter(|local| local != configured);
    [configured.clone()].into_iter().chain(local).collect()
}

/// Finds the destination of a request. One source decides, and a second one may only say the same.
pub(super) fn destination(request: &Request, domains: &[HostName]) -> Result<Destination, Misdirected> {
    let authority = authority(request.uri(), request.headers())?;
    let host = authority.as_deref().map(by_host(domains)).transpose()?.flatten();
    let header = by_header(request.headers())?;
    let own_host = host.is_some();
    let (sandbox, port) = match (host, header) {
        // HTTP/1 without a host ends before it comes here, unless it is of the version that knows
        // none.
        (None, None) if authority.is_none() && request.version() == Version::HTTP_2 => {
            return Err(Misdirected::Host);
        }
        (None, None) if authority.as_deref().is_some_and(is_elsewhere) => return Err(Misdirected::Domain),
        (None, None) => return Ok(Destination::Api),
        (Some(host), Some(header)) if host != header => return Err(Misdirected::Disagreeing),
        (Some(named), _) | (None, Some(named)) => named,
    };
    let authority = authority.ok_or(Misdirected::Host)?;
    Ok(Destination::Port(Target { sandbox, port, authority, own_host }))
}

/// The sandbox whose port a host names, if it does.
pub(super) fn sandbox_of(authority: &str, domain: &HostName) -> Option<SandboxId> {
    by_host(&domains(domain))(&authority.to_ascii_lowercase()).ok().flatten().map(|(sandbox, _)| sandbox)
}

/// The host that the request is for, with its port. HTTP/2 and a request in absolute form say it in
/// the target, others in a header; a request that says it twice must say the same.
fn authority(uri: &Uri, headers: &HeaderMap) -> Result<Option<String>, Misdirected> {
    let mut named = headers.get_all(HOST).iter();
    let header = named.next().map(|value| value.to_str().map_err(|_| Misdirected::Host)).transpose()?;
    if named.next().is_some() {
        return Err(Misdirected::TwoHosts);
    }
    match (uri.authority().map(|authority| authority.as_str()), header) {
        (Some(target), Some(header)) if !target.eq_ignore_ascii_case(header) => Err(Misdirected::TwoHosts),
        (Some(authority), _) | (None, Some(authority)) => Ok(Some(authority.to_ascii_lowercase())),
        (None, None) => Ok(None),
    }
}

type Named = (SandboxId, u16);

fn by_host(domains: &[HostName]) -> impl Fn(&str) -> Result<Option<Named>, Misdirected> {
    |authority| {
        let Some(Host::Name(host)) = host_of(authority)? else { return Ok(None) };
        let Some(domain) = domains.iter().find(|domain| host.is_below(domain)) else { return Ok(None) };
        let below = &host.as_str()[..host.as_str().len() - domain.as_str().len() - 1];
        let seems = |label: &str| label.split_once('-').is_some_and(|(port, _)| is_digits(port));
        if !below.split('.').any(seems) {
            return Ok(None);
        }
        let (port, sandbox) = below.split_once('-').ok_or(Misdirected::Label)?;
        let sandbox = parse_sandbox(sandbox).ok_or_else(|| stranger(sandbox, Misdirected::Label))?;
        Ok(Some((sandbox, parse_port(port).ok_or(Misdirected::Port)?)))
    }
}

/// A request to something that is no host at all may still be for the API, whose clients say what
/// they like.
fn host_of(authority: &str) -> Result<Option<Host>, Misdirected> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    if authority.contains('@') || port.is_some_and(|port| !port.is_empty() && !is_digits(port)) {
        return Err(Misdirected::Host);
    }
    Ok(host.parse().ok())
}

fn by_header(headers: &HeaderMap) -> Result<Option<Named>, Misdirected> {
    let mut found = None;
    for (sandbox, port) in ROUTING_HEADERS {
        let (sandbox, port) = match (only(headers, sandbox)?, only(headers, port)?) {
            (None, None) => continue,
            (Some(sandbox), Some(port)) => (sandbox, port),
            _ => return Err(Misdirected::OneHeader),
        };
        let sandbox = parse_sandbox(sandbox).ok_or_else(|| stranger(sandbox, Misdirected::Sandbox))?;
        let named = (sandbox, parse_port(port).ok_or(Misdirected::Port)?);
        if found.as_ref().is_some_and(|other| *other != named) {
            return Err(Misdirected::Disagreeing);
        }
        found = Some(named);
    }
    Ok(found)
}

fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Misdirected> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        // What is no text is neither an id nor a number.
        (Some(value), None) => Ok(Some(value.to_str().unwrap_or_default())),
        (Some(_), Some(_)) => Err(Misdirected::Repeated),
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// An id. Clients of E2B that are old write the id of a client behind it, which says nothing.
fn parse_sandbox(text: &str) -> Option<SandboxId> {
    let (sandbox, client) = text.split_once('-').unwrap_or((text, "any"));
    let plain = !client.is_empty() && client.bytes().all(|byte| byte.is_ascii_alphanumeric());
    sandbox.parse().ok().filter(|_| plain)
}

/// The error for a text that is no id of ours: it may be one of another server's.
fn stranger(text: &str, otherwise: Misdirected) -> Misdirected {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let might_be = (1..=63).contains(&text.len()) && text.bytes().all(is_plain);
    if might_be { Misdirected::Stranger(text.to_owned()) } else { otherwise }
}

/// True if a host that is not ours begins as only hosts of sandboxes do.
fn is_elsewhere(authority: &str) -> bool {
    let label = authority.split(['.', ':']).next().unwrap_or_default();
    let named = label.split_once('-');
    named.is_some_and(|(port, id)| parse_port(port).is_some() && parse_sandbox(id).is_some())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    const ID: &str = "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn find(uri: &str, headers: &[(&str, &str)]) -> Result<Destination, Misdirected> {
        let mut request = http::Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let domains = domains(&"preview.example".parse().unwrap());
        destination(&request.body(Body::empty()).unwrap(), &domains)
    }

    fn by_host(host: &str) -> Result<Destination, Misdirected> {
        find("/", &[("host", host)])
    }

    fn port_of(found: Result<Destination, Misdirected>) -> Option<(u16, bool)> {
        match found {
            Ok(Destination::Port(target)) if target.sandbox.as_str() == ID => {
                Some((target.port, target.own_host))
            }
            _ => None,
        }
    }

    #[test]
    fn a_host_names_a_port_of_a_sandbox() {
        for (host, port) in [
            (format!("8000-{ID}.localhost"), 8000),
            (format!("8000-{ID}.localhost:7777"), 8000),
            (format!("1-{ID}.preview.example"), 1),
            (format!("65535-{}.LocalHost.", ID.to_uppercase()), 65535),
            (format!("49983-{ID}-6532622b.localhost"), 49983),
        ] {
            assert_eq!(port_of(by_host(&host)), Some((port, true)), "{host}");
        }
    }

    #[test]
    fn other_hosts_are_the_apis() {
        for host in
            ["localhost", "127.0.0.1:7777", "[::1]:7777", "warren.localhost", "example.com", "", "a b"]
        {
            assert_eq!(by_host(host), Ok(Destination::Api), "{host}");
        }
        assert_eq!(by_host("8000-app.elsewhere.example"), Ok(Destination::Api));
        assert_eq!(find("/", &[]), Ok(Destination::Api));
    }

    #[test]
    fn a_sandbox_of_another_server_is_told_from_nonsense() {
        let stranger = |id: &str| Err(Misdirected::Stranger(id.to_owned()));
        assert_eq!(by_host("8000-i0123456789.localhost"), stranger("i0123456789"));
        let headers = [("host", "127.0.0.1"), ("e2b-sandbox-id", "nobody"), ("e2b-sandbox-port", "80")];
        assert_eq!(find("/", &headers), stranger("nobody"));
        assert_eq!(by_host("8000-a_b.localhost"), Err(Misdirected::Label));
        let elsewhere = format!("8000-{ID}.elsewhere.example:7777");
        assert_eq!(by_host(&elsewhere), Err(Misdirected::Domain));
        let both = [("host", elsewhere.as_str()), ("e2b-sandbox-id", ID), ("e2b-sandbox-port", "80")];
        assert_eq!(port_of(find("/", &both)), Some((80, false)), "headers stand for any host");
    }

    #[test]
    fn what_almost_names_a_port_is_refused() {
        let label = "a".repeat(255);
        for host in [
            format!("0-{ID}.localhost"),
            format!("65536-{ID}.localhost"),
            format!("08000-{ID}.localhost"),
            "8000-sbx.localhost".to_owned(),
            format!("8000-{ID}x.localhost"),
            format!("8000-{ID}.8000-{ID}.localhost"),
            format!("x.8000-{ID}.localhost"),
            format!("8000-{ID}-x-y.localhost"),
            format!("8000-{ID}-x_y.localhost"),
        ] {
            assert!(by_host(&host).is_err(), "{host}");
        }
        for host in
            [format!("80@8000-{ID}.localhost"), format!("8000-{ID}.localhost:80@x"), "a:b:x".to_owned()]
        {
            assert!(by_host(&host).is_err(), "{host}");
        }
        assert_eq!(by_host(&format!("{label}.localhost")), Ok(Destination::Api));
    }

    #[test]
    fn headers_name_a_port_wherever_the_request_goes() {
        let both = [("host", "127.0.0.1:7777"), ("warren-sandbox-id", ID), ("warren-sandbox-port", "80")];
        assert_eq!(port_of(find("/v1/health", &both)), Some((80, false)));
        assert_eq!(find("/", &both[..2]), Err(Misdirected::OneHeader));
        assert_eq!(find("/", &[both[0], both[2]]), Err(Misdirected::OneHeader));
        let twice = [both[0], both[1], both[2], both[2]];
        assert_eq!(find("/", &twice), Err(Misdirected::Repeated));
        for port in ["0", "65536", "80@x", "127.0.0.1:80", "", "+80", "080", "8 0"] {
            assert_eq!(
                find("/", &[both[0], both[1], ("warren-sandbox-port", port)]),
                Err(Misdirected::Port),
                "{port}"
            );
        }
        assert_eq!(
            find("/", &[both[0], ("warren-sandbox-id", "an-other-one"), both[2]]),
            Err(Misdirected::Sandbox)
        );
    }

    #[test]
    fn headers_of_e2b_clients_are_read_too() {
        let both = [("host", "127.0.0.1:7777"), ("E2b-Sandbox-Id", ID), ("E2b-Sandbox-Port", "49999")];
        assert_eq!(port_of(find("/", &both)), Some((49999, false)));
        assert_eq!(
            port_of(find("/", &[("host", "sandbox.localhost"), both[1], both[2]])),
            Some((49999, false))
        );
        assert_eq!(find("/", &both[..2]), Err(Misdirected::OneHeader));
        let old = format!("{ID}-6532622b");
        assert_eq!(port_of(find("/", &[both[0], (both[1].0, &old), both[2]])), Some((49999, false)));
        let ours = [("warren-sandbox-id", ID), ("warren-sandbox-port", "80")];
        assert_eq!(find("/", &[both[0], both[1], both[2], ours[0], ours[1]]), Err(Misdirected::Disagreeing));
    }

    #[test]
    fn two_sources_may_only_say_the_same() {
        let host = format!("8000-{ID}.localhost");
        let headers =
            |port| [("host", host.as_str()), ("warren-sandbox-id", ID), ("warren-sandbox-port", port)];
        assert_eq!(port_of(find("/", &headers("8000"))), Some((8000, true)));
        assert_eq!(find("/", &headers("8001")), Err(Misdirected::Disagreeing));
        assert_eq!(
            find("/", &[("host", "a.localhost"), ("host", host.as_str())]),
            Err(Misdirected::TwoHosts)
        );
        let absolute = format!("http://{host}/");
        assert_eq!(find(&absolute, &[("host", "localhost")]), Err(Misdirected::TwoHosts));
        assert_eq!(port_of(find(&absolute, &[("host", host.as_str())])), Some((8000, true)));
        assert_eq!(port_of(find(&absolute, &[])), Some((8000, true)));
    }
}
