//! Access to ports. A port is open to callers with an API key of the sandbox's owner, a token, or a
//! link to it; and to everybody, if the owner said so. Every credential that is sent must be right:
//! a wrong key beside a right link is refused, and so is any credential that was sent twice.
//! Browsers send cookies unasked, so a cookie counts only where nothing else is shown. No
//! credential reaches the application.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, COOKIE, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use warren_core::{Owner, Scope, Traffic};
use warren_e2b::is_traffic_token;
use warren_face::arrival::Peer;
use warren_face::arrival::{Arrival, OwnerNotice};
use warren_face::auth::{Caller, Secret, StreamGuard};
use warren_face::foreign;
use warren_face::gate;
use warren_face::link::{self, LINK_PARAMETER, Link};

use super::refusal::{Refusal, Wrong};
use super::{Target, head, route};
use crate::state::AppState;

/// Headers that carry a token: a port's own, and one for all ports of a sandbox that E2B's clients
/// are told.
pub(super) const TOKEN_HEADERS: [&str; 2] = ["warren-traffic-token", E2B_TOKEN_HEADER];
const E2B_TOKEN_HEADER: &str = "e2b-traffic-access-token";

/// The cookie that a link becomes.
pub(super) const COOKIE_NAME: &str = "warren-port";

const KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");
const OWNER_HEADER: HeaderName = HeaderName::from_static("x-warren-owner");

/// The decision about a request.
pub(super) enum Admission {
    Granted(Admitted),
    /// Somebody came with a link: the same address without it, and a cookie instead.
    Welcome(Welcome),
}

/// A client that was admitted.
pub(super) struct Admitted {
    /// The sandbox's owner.
    pub(super) owner: Owner,
    /// How the sandbox's ports are used.
    pub(super) traffic: Traffic,
    /// Says when what they have open must end, if that depends on a key.
    pub(super) guard: Option<StreamGuard>,
}

/// A redirect that leaves the link behind.
pub(super) struct Welcome {
    location: HeaderValue,
    cookie: HeaderValue,
}

/// Admits a request, and removes the credentials that it showed.
pub(super) fn admit(state: &AppState, target: &Target, request: &mut Request) -> Result<Admission, Refusal> {
    let refuse = |wrong| Refusal::of(target, wrong);
    let peer = Peer::of(request);
    let caller = by_key(state, target, request.headers_mut(), peer)?;
    // Where no key is asked for, a page of elsewhere has none either.
    let unwelcome = caller.as_ref().is_some_and(|caller| caller.key.is_none())
        && is_from_elsewhere(state, target, request);
    let caller = caller.filter(|_| !unwelcome);
    let tokened = by_token(state, target, request.headers_mut(), peer)?;
    let (linked, query) = by_link(state, target, request, peer)?;
    let cookie = take_cookie(request.headers_mut()).map_err(|()| refuse(Wrong::Link))?;
    let record = state.engine.live(&target.sandbox).ok_or_else(|| refuse(Wrong::NoSandbox))?;
    let (owner, traffic) = (record.owner.clone(), record.traffic.clone());
    let public = traffic.public || state.book.of(&target.sandbox, target.port).public;
    if let Some(caller) = caller {
        // Another owner's sandbox is answered like none.
        if caller.owner != owner {
            return Err(refuse(Wrong::NoSandbox));
        }
        OwnerNotice::of(request.extensions(), &owner);
        let guard = Some(caller.guard());
        return Ok(Admission::Granted(Admitted { owner, traffic, guard }));
    }
    if tokened || linked.is_some() {
        OwnerNotice::of(request.extensions(), &owner);
    }
    let granted = Admission::Granted(Admitted { owner, traffic, guard: None });
    if let Some((link, text)) = linked {
        if target.own_host && is_navigation(request) {
            let secure = is_secure(state, request);
            let welcome = Welcome::new(&query, &link, &text, (state.clock.unix_ms() / 1000, secure));
            return welcome.map(Admission::Welcome).ok_or_else(|| refuse(Wrong::Link));
        }
        return Ok(granted);
    }
    if tokened || public {
        return Ok(granted);
    }
    let Some(cookie) = cookie.filter(|_| target.own_host) else {
        return Err(refuse(if unwelcome { Wrong::Foreign } else { Wrong::Private }));
    };
    check_link(state, target, request, &cookie).ok_or_else(|| failed(state, target, peer, Wrong::Link))?;
    if is_foreign(target, request) {
        return Err(refuse(Wrong::Foreign));
    }
    Ok(granted)
}

/// Takes what has the shape of one of our keys out of the headers; anything else there is for the
/// application. Somebody is found also where no key is asked for.
fn by_key(
    state: &AppState,
    target: &Target,
    headers: &mut HeaderMap,
    peer: Option<Peer>,
) -> Result<Option<Caller>, Refusal> {
    let mut shown = HeaderMap::new();
    for (name, is_ours) in [(AUTHORIZATION, is_our_bearer as fn(&str) -> bool), (KEY_HEADER, is_our_key)] {
        let ours = headers.get_all(&name).iter().any(|value| value.to_str().is_ok_and(is_ours));
        if ours {
            shown.extend(head::drain(headers, &name).map(|value| (name.clone(), value)));
        }
    }
    shown.extend(head::drain(headers, &OWNER_HEADER).map(|value| (OWNER_HEADER, value)));
    let caller = gate::identify(state, &shown, peer).map_err(|error| Refusal::of(target, error.into()))?;
    if let Some(caller) = &caller {
        caller.require(Scope::Use).map_err(|error| Refusal::of(target, error.into()))?;
    }
    Ok(caller)
}

fn is_our_bearer(value: &str) -> bool {
    let mut words = value.split_ascii_whitespace();
    words.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"))
        && words.next().is_some_and(is_our_key)
}

fn is_our_key(value: &str) -> bool {
    value.starts_with("wrn_") || value.starts_with("e2b_") || value.parse::<Secret>().is_ok()
}

fn by_token(
    state: &AppState,
    target: &Target,
    headers: &mut HeaderMap,
    peer: Option<Peer>,
) -> Result<bool, Refusal> {
    let keys = &state.link_keys;
    let mut shown = false;
    for name in TOKEN_HEADERS {
        for value in head::drain(headers, &HeaderName::from_static(name)) {
            let right = value.to_str().is_ok_and(|text| match name {
                E2B_TOKEN_HEADER => is_traffic_token(text, keys, &target.sandbox),
                _ => link::is_token(text, keys, &target.sandbox, target.port),
            });
            if !right || shown {
                return Err(failed(state, target, peer, Wrong::Token));
            }
            shown = true;
        }
    }
    Ok(shown)
}

type Linked = Option<(Link, String)>;

/// Takes a link out of the query; answers it with the address that is left.
fn by_link(
    state: &AppState,
    target: &Target,
    request: &mut Request,
    peer: Option<Peer>,
) -> Result<(Linked, String), Refusal> {
    let path = request.uri().path().to_owned();
    let Some(query) = request.uri().query() else { return Ok((None, path)) };
    let is_link = |pair: &&str| pair.split('=').next() == Some(LINK_PARAMETER);
    let mut links = query.split('&').filter(is_link);
    let Some(first) = links.next() else { return Ok((None, path)) };
    let text = first.split_once('=').map_or("", |(_, text)| text).to_owned();
    let only = links.next().is_none();
    let found = check_link(state, target, request, &text).filter(|_| only);
    let link = found.ok_or_else(|| failed(state, target, peer, Wrong::Link))?;
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_link(pair)).collect();
    let left = if rest.is_empty() { path } else { format!("{path}?{}", rest.join("&")) };
    *request.uri_mut() = left.parse::<Uri>().map_err(|_| Refusal::of(target, Wrong::Link))?;
    Ok((Some((link, text)), left))
}

fn check_link(state: &AppState, target: &Target, request: &Request, text: &str) -> Option<Link> {
    let now_s = state.clock.unix_ms() / 1000;
    let link = Link::read(text, &state.link_keys, (&target.sandbox, target.port), now_s).ok()?;
    let upgrades = head::wants_upgrade(request.headers());
    link.allows(request.method(), request.uri().path(), upgrades).then_some(link)
}

/// Takes our cookie out of the headers. Two of them are one too many.
fn take_cookie(headers: &mut HeaderMap) -> Result<Option<String>, ()> {
    let mut found = None;
    let mut kept = Vec::new();
    for value in head::drain(headers, &COOKIE).collect::<Vec<_>>() {
        let Ok(text) = value.to_str() else {
            kept.push(value);
            continue;
        };
        let (ours, others): (Vec<&str>, Vec<&str>) =
            text.split(';').map(str::trim).partition(|pair| pair.split('=').next() == Some(COOKIE_NAME));
        for pair in ours {
            let text = pair.split_once('=').map_or("", |(_, text)| text);
            if found.replace(text.to_owned()).is_some() {
                return Err(());
            }
        }
        let others: Vec<&str> = others.into_iter().filter(|pair| !pair.is_empty()).collect();
        kept.extend(HeaderValue::from_str(&others.join("; ")).ok().filter(|value| !value.is_empty()));
    }
    headers.extend(kept.into_iter().map(|value| (COOKIE, value)));
    Ok(found)
}

/// True if a page of another site makes the browser do more than look, with a cookie that is not
/// its own.
fn is_foreign(target: &Target, request: &Request) -> bool {
    let looks =
        matches!(*request.method(), Method::GET | Method::HEAD) && !head::wants_upgrade(request.headers());
    let mut origins = request.headers().get_all(ORIGIN).iter();
    !looks && origins.any(|origin| !is_own_origin(target, origin))
}

/// True if a page of neither this application nor another of the same sandbox does more than look,
/// or got here by a name that is not this machine's.
fn is_from_elsewhere(state: &AppState, target: &Target, request: &Request) -> bool {
    if !foreign::is_own(&state.config.ports.domain, &target.authority) {
        return true;
    }
    let headers = request.headers();
    if matches!(*request.method(), Method::GET | Method::HEAD) && !head::wants_upgrade(headers) {
        return false;
    }
    let own = |origin: &str| {
        origin.eq_ignore_ascii_case(&target.authority)
            || route::sandbox_of(origin, &state.config.ports.domain).as_ref() == Some(&target.sandbox)
    };
    let mut origins = foreign::origins(headers).peekable();
    match origins.peek() {
        Some(_) => !origins.all(|origin| origin.is_some_and(own)),
        None => foreign::is_of_elsewhere(headers),
    }
}

fn is_own_origin(target: &Target, origin: &HeaderValue) -> bool {
    let host = origin.to_str().ok().and_then(|text| text.split_once("://")).map(|(_, host)| host);
    host.is_some_and(|host| host.eq_ignore_ascii_case(&target.authority))
}

/// True if a person goes there, and will want what the page needs as well.
fn is_navigation(request: &Request) -> bool {
    let wants_page = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
    *request.method() == Method::GET
        && wants_page.is_some_and(|accept| accept.contains("text/html"))
        && !head::wants_upgrade(request.headers())
}

fn is_secure(state: &AppState, request: &Request) -> bool {
    state.config.ports.behind_tls || Arrival::of(request).secure
}

/// Counts a wrong credential; a client that tries too often is told to wait.
fn failed(state: &AppState, target: &Target, peer: Option<Peer>, wrong: Wrong) -> Refusal {
    let error = gate::refuse(state, peer);
    if error.status() == StatusCode::TOO_MANY_REQUESTS {
        return Refusal::of(target, error.into());
    }
    Refusal::of(target, wrong)
}

impl Welcome {
    fn new(left: &str, link: &Link, text: &str, (now_s, secure): (u64, bool)) -> Option<Self> {
        let path = if link.path.is_empty() { "/" } else { &link.path };
        let age = link.expires_unix_s.saturating_sub(now_s);
        let secure = if secure { "; Secure" } else { "" };
        let cookie =
            format!("{COOKIE_NAME}={text}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Lax{secure}");
        // Two slashes at the beginning would name another host.
        let left = format!("/{}", left.trim_start_matches(['/', '\\']));
        Some(Self {
            location: HeaderValue::from_str(&left).ok()?,
            cookie: HeaderValue::from_str(&cookie).ok()?,
        })
    }
}

impl IntoResponse for Welcome {
    fn into_response(self) -> Response {
        let headers = [
            (LOCATION, self.location),
            (SET_COOKIE, self.cookie),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        ];
        (StatusCode::SEE_OTHER, headers).into_response()
    }
}
