use std::fmt;
use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use ureq::http::header::{ACCEPT, AUTHORIZATION, CONTENT_RANGE, LOCATION, RANGE, WWW_AUTHENTICATE};
use ureq::http::{Response, Uri};
use ureq::{Agent, Body};
use warren_core::{ImageAddress, ImageSource, RegistryError, RegistryErrorKind};

use crate::answer::{basic, body, failed, refused};
use crate::challenge::{self, Challenge};
use crate::credentials::Credentials;
use crate::endpoint::Endpoint;
use crate::token::{self, Order, Token};

/// As large as registries take one.
const MOST_MANIFEST: u64 = 4 << 20;
const MOST_REDIRECTS: usize = 5;
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// An image at its registry, or at a mirror of it.
pub struct RegistryImage {
    agent: Agent,
    address: ImageAddress,
    endpoints: Vec<Endpoint>,
    credentials: Option<Credentials>,
    /// A header that lets us in, at each of the endpoints.
    tokens: Mutex<Vec<Option<Token>>>,
    /// The endpoint that had the manifest.
    chosen: AtomicUsize,
}

/// One thing to ask for.
#[derive(Debug, Clone, Copy)]
struct Question<'a> {
    path: &'a str,
    accept: &'a str,
    /// The position from which on a blob is wanted.
    from: u64,
}

impl RegistryImage {
    pub(crate) fn new(
        agent: Agent,
        address: ImageAddress,
        endpoints: Vec<Endpoint>,
        credentials: Option<Credentials>,
    ) -> Self {
        let tokens = Mutex::new(vec![None; endpoints.len()]);
        Self { agent, address, endpoints, credentials, tokens, chosen: AtomicUsize::new(0) }
    }

    /// Asks the endpoint that served before, then the others. A mirror that has not what is wanted,
    /// or whatever else is the matter with it, is no reason to fail.
    fn ask(&self, question: Question<'_>) -> Result<Response<Body>, RegistryError> {
        let first = self.chosen.load(Ordering::Relaxed);
        let others = (0..self.endpoints.len()).filter(|index| *index != first);
        let mut refusal = None;
        for index in [first].into_iter().chain(others) {
            let Some(endpoint) = self.endpoints.get(index) else { continue };
            match self.ask_at(index, endpoint, question) {
                Ok(response) => {
                    self.chosen.store(index, Ordering::Relaxed);
                    return Ok(response);
                }
                // The registry's own word is the one to tell.
                Err(error) if refusal.is_none() || !endpoint.is_mirror => refusal = Some(error),
                Err(_) => {}
            }
        }
        Err(refusal
            .unwrap_or_else(|| RegistryError::new(RegistryErrorKind::NotFound, self.action("", question))))
    }

    fn ask_at(
        &self,
        index: usize,
        endpoint: &Endpoint,
        question: Question<'_>,
    ) -> Result<Response<Body>, RegistryError> {
        let known = self.tokens.lock().get(index).cloned().flatten().filter(Token::is_good);
        let action = || self.action(&endpoint.base, question);
        let response = self.follow(endpoint, question, known.as_ref())?;
        let response = if response.status() == 401 {
            let wanted = response.headers().get_all(WWW_AUTHENTICATE).iter();
            let wanted = wanted.filter_map(|value| value.to_str().ok()).find_map(challenge::read);
            let token = self.let_in(endpoint, wanted, action)?;
            let response = self.follow(endpoint, question, Some(&token))?;
            if let Some(place) = self.tokens.lock().get_mut(index) {
                *place = Some(token);
            }
            response
        } else {
            response
        };
        match response.status().as_u16() {
            200 | 206 => Ok(response),
            status => Err(refused(status, action(), response)),
        }
    }

    /// Gets what lets us in.
    fn let_in(
        &self,
        endpoint: &Endpoint,
        wanted: Option<Challenge>,
        action: impl Fn() -> String,
    ) -> Result<Token, RegistryError> {
        let denied =
            |why: &str| RegistryError::new(RegistryErrorKind::Denied, format!("{}: {why}", action()));
        let credentials = self.credentials.as_ref().filter(|_| !endpoint.is_mirror);
        match (wanted, credentials) {
            (Some(Challenge::Basic), Some(Credentials::Password { username, password })) => {
                Ok(Token::lasting(basic(username, password)))
            }
            (Some(Challenge::Basic), _) => Err(denied("it wants a user name and a password")),
            (Some(Challenge::Bearer { realm, service }), credentials) => {
                if is_downgrade(&endpoint.base, &realm) {
                    let why = "it has its tokens made without TLS";
                    return Err(RegistryError::new(
                        RegistryErrorKind::Refused,
                        format!("{}: {why}", action()),
                    ));
                }
                let repository = self.address.repository();
                let order = Order { realm: &realm, service: service.as_deref(), repository };
                token::get(&self.agent, &order, credentials)
            }
            (None, _) => Err(denied("it does not say how to be let in")),
        }
    }

    /// Asks, and goes where the answer leads.
    fn follow(
        &self,
        endpoint: &Endpoint,
        question: Question<'_>,
        token: Option<&Token>,
    ) -> Result<Response<Body>, RegistryError> {
        let action = || self.action(&endpoint.base, question);
        let nonsense =
            |why: &str| RegistryError::new(RegistryErrorKind::Refused, format!("{}: {why}", action()));
        let mut place = format!("{}/v2/{}/{}", endpoint.base, self.address.repository(), question.path);
        for _ in 0..=MOST_REDIRECTS {
            let mut request = self.agent.get(&place).header(ACCEPT, question.accept);
            if question.from > 0 {
                request = request.header(RANGE, format!("bytes={}-", question.from));
            }
            if let Some(token) = token.filter(|_| is_below(&place, &endpoint.base)) {
                request = request.header(AUTHORIZATION, &token.header);
            }
            let response = request.call().map_err(|error| failed(action(), error))?;
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(response);
            }
            let to = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let to =
                to.and_then(|to| joined(&place, to)).ok_or_else(|| nonsense("it leads to no address"))?;
            if is_downgrade(&place, &to) {
                return Err(nonsense("it leads from TLS to a connection without"));
            }
            place = to;
        }
        Err(nonsense("it leads from one place to the next without end"))
    }

    fn action(&self, base: &str, question: Question<'_>) -> String {
        let host = base.split_once("://").map_or(base, |(_, host)| host);
        let part = if question.path.starts_with("blobs/") { question.path } else { "its manifest" };
        format!("pull {}: get {part} from `{host}`", self.address)
    }
}

impl ImageSource for RegistryImage {
    fn manifest(&self, digest: Option<&str>) -> Result<Vec<u8>, RegistryError> {
        let path = format!("manifests/{}", digest.unwrap_or_else(|| self.address.wanted()));
        let question = Question { path: &path, accept: MANIFESTS, from: 0 };
        let response = self.ask(question)?;
        body(response, MOST_MANIFEST, || self.action("its registry", question))
    }

    fn blob(&self, digest: &str, from: u64) -> Result<Box<dyn Read + Send>, RegistryError> {
        let path = format!("blobs/{digest}");
        let question = Question { path: &path, accept: "*/*", from };
        let response = self.ask(question)?;
        if from == 0 {
            return Ok(Box::new(response.into_body().into_reader()));
        }
        if response.status() == 206 {
            let range = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
            let begins =
                range.and_then(|range| range.strip_prefix("bytes ")?.split('-').next()?.parse().ok());
            if begins != Some(from) {
                let action = format!("{}: it sends another part", self.action("its registry", question));
                return Err(RegistryError::new(RegistryErrorKind::Refused, action));
            }
            return Ok(Box::new(response.into_body().into_reader()));
        }
        // It knows no parts, and begins at the beginning.
        let mut reader = response.into_body().into_reader();
        let passed = io::copy(&mut (&mut reader).take(from), &mut io::sink());
        passed.map_err(|error| {
            RegistryError::caused(
                RegistryErrorKind::Unreachable,
                self.action("its registry", question),
                error,
            )
        })?;
        Ok(Box::new(reader))
    }

    fn address(&self) -> &ImageAddress {
        &self.address
    }
}

impl fmt::Debug for RegistryImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryImage").field("address", &self.address).finish_non_exhaustive()
    }
}

/// True if an address is one of this server.
fn is_below(place: &str, base: &str) -> bool {
    place.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'))
}

fn is_downgrade(from: &str, to: &str) -> bool {
    from.starts_with("https://") && !to.starts_with("https://")
}

/// Where a redirect leads.
fn joined(from: &str, to: &str) -> Option<String> {
    let uri: Uri = from.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?.as_str());
    let whole = if to.starts_with("//") {
        format!("{scheme}:{to}")
    } else if to.starts_with('/') {
        format!("{scheme}://{authority}{to}")
    } else {
        to.to_owned()
    };
    let parsed: Uri = whole.parse().ok()?;
    let known = matches!(parsed.scheme_str(), Some("http" | "https"));
    let plain = parsed.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    (known && plain).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_at_their_host() {
        assert!(is_below("https://a.b/v2/x", "https://a.b"));
        assert!(!is_below("https://a.b.evil/v2/x", "https://a.b"));
        assert!(!is_below("http://a.b/v2/x", "https://a.b"));
    }

    #[test]
    fn redirects_lead_to_addresses() {
        let from = "https://a.b/v2/x";
        assert_eq!(joined(from, "/y?z").as_deref(), Some("https://a.b/y?z"));
        assert_eq!(joined(from, "//c.d/y").as_deref(), Some("https://c.d/y"));
        assert_eq!(joined(from, "http://c.d/y").as_deref(), Some("http://c.d/y"));
        for bad in ["y", "file:///etc/passwd", "ftp://a/b", "https://u:p@c.d/y", "", "http://"] {
            assert_eq!(joined(from, bad), None, "{bad}");
        }
    }
}
