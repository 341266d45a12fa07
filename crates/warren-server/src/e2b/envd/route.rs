use http::request::Parts;
use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;

use super::path::clean;
use super::refusal::Refusal;

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    Health,
    Metrics,
    Envs,
    Download,
    Upload,
    Compose,
    /// A method of the service.
    Filesystem(String),
    Process(String),
}

/// What only the machinery around a sandbox may ask elsewhere. Here nobody may.
const INTERNAL: [&str; 7] =
    ["/init", "/freeze", "/unfreeze", "/fsfreeze", "/fsthaw", "/collapse", "/upgrade"];

impl Route {
    pub(super) fn of(head: &Parts) -> Result<Self, Refusal> {
        let path = clean(&percent_decode_str(head.uri.path()).decode_utf8_lossy());
        if INTERNAL.contains(&path.as_str()) {
            return Err(Refusal::Internal);
        }
        let (get, post) = (head.method == Method::GET, head.method == Method::POST);
        let called = |service| path.strip_prefix(service).filter(|_| post).map(str::to_owned);
        if let Some(method) = called("/filesystem.Filesystem/") {
            return Ok(Self::Filesystem(method));
        }
        if let Some(method) = called("/process.Process/") {
            return Ok(Self::Process(method));
        }
        match path.as_str() {
            "/health" if get => Ok(Self::Health),
            "/metrics" if get => Ok(Self::Metrics),
            "/envs" if get => Ok(Self::Envs),
            "/files" if get => Ok(Self::Download),
            "/files" if post => Ok(Self::Upload),
            "/files/compose" if post => Ok(Self::Compose),
            "/health" | "/metrics" | "/envs" | "/files" | "/files/compose" => {
                let message = format!("{path} does not have {}", head.method);
                Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message))
            }
            _ => Err(Refusal::new(StatusCode::NOT_FOUND, format!("there is no {path}"))),
        }
    }

    /// Whether a signature in the query opens it as the token does.
    pub(super) fn may_be_signed(&self) -> bool {
        matches!(self, Self::Download | Self::Upload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(method: &str, path: &str) -> Result<Route, Refusal> {
        Route::of(&http::Request::builder().method(method).uri(path).body(()).unwrap().into_parts().0)
    }

    #[test]
    fn internal_routes_are_not_found_however_they_are_written() {
        for path in ["/init", "//init", "/init/", "/x/../init", "/%69nit", "/./freeze", "/upgrade?x=1"] {
            for method in ["GET", "POST"] {
                assert!(matches!(find(method, path), Err(Refusal::Internal)), "{method} {path}");
            }
        }
    }

    #[test]
    fn a_route_has_its_methods_and_no_others() {
        assert_eq!(find("GET", "/files?path=a").unwrap(), Route::Download);
        assert_eq!(find("POST", "/files").unwrap(), Route::Upload);
        let stat = Route::Filesystem("Stat".to_owned());
        assert_eq!(find("POST", "/filesystem.Filesystem/Stat").unwrap(), stat);
        let told = |found: Result<Route, Refusal>| match found {
            Err(Refusal::Told { status, .. }) => status.as_u16(),
            other => panic!("{other:?}"),
        };
        assert_eq!((told(find("DELETE", "/files")), told(find("GET", "/nothing"))), (405, 404));
    }
}
