use std::sync::Arc;

use axum::extract::Request;
use http::header::HOST;
use warren_core::HostName;
use warren_face::arrival::{Arrival, Door};

const PREFIX: &str = "/e2b";

/// The service's own interface. No client of this protocol asks for anything below it.
const OWN: &str = "/v1/";

/// Where the control plane is.
#[derive(Debug, Clone)]
pub struct Place {
    /// Hosts that are its own.
    hosts: Arc<[String]>,
}

impl Place {
    /// `domain` is where ports of sandboxes are reached.
    pub fn of(domain: &HostName) -> Self {
        Self { hosts: [format!("api.{domain}"), "api.localhost".to_owned()].into() }
    }

    /// True if a request that is for no port of a sandbox is for the control plane.
    pub fn has(&self, request: &Request) -> bool {
        let path = request.uri().path();
        let below = path.strip_prefix(PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let own_host = || self.is_own(request) && !path.starts_with(OWN);
        below || Arrival::of(request).door == Door::E2b || own_host()
    }

    fn is_own(&self, request: &Request) -> bool {
        let header = || request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let Some(authority) = request.uri().authority().map(|authority| authority.as_str()).or_else(header)
        else {
            return false;
        };
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let host = host.strip_suffix('.').unwrap_or(host);
        self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn has(uri: &str, host: &str, door: Door) -> bool {
        let mut request = Request::builder().uri(uri).header("host", host).body(Body::empty()).unwrap();
        request.extensions_mut().insert(Arrival { door, ..Arrival::default() });
        let place = Place { hosts: ["api.box.example".to_owned(), "api.localhost".to_owned()].into() };
        place.has(&request)
    }

    #[test]
    fn it_is_below_a_prefix_on_hosts_of_its_own_and_behind_a_door_of_its_own() {
        assert!(has("/e2b/sandboxes", "127.0.0.1:7777", Door::Main) && has("/e2b", "x", Door::Main));
        assert!(has("/sandboxes", "api.box.example", Door::Main));
        assert!(has("/sandboxes", "API.localhost:7777", Door::Main));
        assert!(has("https://api.box.example:8443/v2/sandboxes", "api.box.example:8443", Door::Main));
        assert!(has("/sandboxes", "127.0.0.1:3000", Door::E2b));
    }

    #[test]
    fn the_rest_is_the_services_own() {
        assert!(!has("/sandboxes", "127.0.0.1:7777", Door::Main) && !has("/e2bx", "x", Door::Main));
        assert!(!has("/sandboxes", "api.example", Door::Main) && !has("/", "xapi.localhost", Door::Main));
        assert!(!has("/v1/sandboxes", "api.box.example", Door::Main));
    }
}
