use http::uri::Authority;
use http::{HeaderMap, Uri, Version, header};
use warren_core::HostName;

/// True if every name in a request is this host at this port. There has to be at least one, and at
/// most one `Host` header.
pub(super) fn names_only(
    uri: &Uri,
    headers: &HeaderMap,
    version: Version,
    host: &HostName,
    port: u16,
) -> bool {
    if uri.scheme_str().is_some_and(|scheme| scheme != "https") {
        return false;
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    if second.is_some() || (first.is_none() && (version < Version::HTTP_2 || uri.authority().is_none())) {
        return false;
    }
    let header_is_right = first.is_none_or(|value| value.to_str().is_ok_and(|text| is(text, host, port)));
    let uri_is_right = uri.authority().is_none_or(|authority| is(authority.as_str(), host, port));
    header_is_right && uri_is_right
}

/// `host` or `host:port`, without a user.
fn is(text: &str, host: &HostName, port: u16) -> bool {
    let (name, said) = match text.split_once(':') {
        Some((name, digits)) => (name, Some(digits)),
        None => (text, None),
    };
    let port_is_right = said.is_none_or(|digits| {
        !digits.starts_with('+') && digits.parse::<u16>().is_ok_and(|number| number == port)
    });
    port_is_right && name.parse::<HostName>().is_ok_and(|name| name == *host)
}

/// The one form in which the host is told who is meant.
pub(super) fn written(host: &HostName, port: u16) -> Option<Authority> {
    let text = if port == 443 { host.to_string() } else { format!("{host}:{port}") };
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn verdict(uri: &str, hosts: &[&str], version: Version) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, HeaderValue::from_str(host).unwrap());
        }
        names_only(&uri.parse().unwrap(), &headers, version, &"api.example".parse().unwrap(), 443)
    }

    #[test]
    fn one_host_however_it_is_written() {
        for host in ["api.example", "API.Example", "api.example.", "api.example:443"] {
            assert!(verdict("/x", &[host], Version::HTTP_11), "{host}");
        }
        assert!(verdict("https://api.example/x", &["api.example"], Version::HTTP_11));
        assert!(verdict("https://api.example/x", &[], Version::HTTP_2));
        assert!(verdict("https://api.example/x", &["api.example"], Version::HTTP_2));
    }

    #[test]
    fn no_host_two_hosts_and_other_hosts_are_refused() {
        let others = [
            "evil.example",
            "api.example.evil.example",
            "xapi.example",
            "api.example:80",
            "api.example:+443",
            "api.example:",
            "api.example:443:443",
            "api.example@evil.example",
            "evil.example@api.example",
            "api.example/",
            "api.example,evil.example",
            "api.example evil.example",
            "[api.example]",
            "",
            "192.0.2.1",
        ];
        for host in others {
            assert!(!verdict("/x", &[host], Version::HTTP_11), "{host}");
            assert!(!verdict("https://api.example/", &[host], Version::HTTP_2), "{host}");
        }
        assert!(!verdict("/x", &[], Version::HTTP_11));
        assert!(!verdict("/x", &["api.example", "api.example"], Version::HTTP_11));
        assert!(!verdict("/x", &["api.example", "evil.example"], Version::HTTP_11));
        assert!(!verdict("https://evil.example/x", &["api.example"], Version::HTTP_11));
        assert!(!verdict("http://api.example/x", &["api.example"], Version::HTTP_11));
        assert!(!verdict("https://evil.example/x", &[], Version::HTTP_2));
        assert!(!verdict("https://user@api.example/x", &[], Version::HTTP_2));
    }
}
