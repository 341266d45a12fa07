//! Headers that are about one connection and not about the message.

use http::HeaderMap;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

const OF_A_CONNECTION: [HeaderName; 6] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
];
/// Headers that stay although they are listed as the connection's: which fields follow the body,
/// the host that was judged, and the length of the message.
const KEPT: [HeaderName; 4] = [TE, TRAILER, HOST, CONTENT_LENGTH];

/// The protocol that a request wants to change to, if it may. One that could carry other names
/// unseen may not.
pub(super) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = listed(headers).any(|option| option.eq_ignore_ascii_case("upgrade"));
    let wanted = headers.get(UPGRADE).filter(|_| asks)?;
    let mut protocols = wanted.to_str().ok()?.split(',').map(str::trim);
    let hides = |protocol: &str| {
        let name = protocol.split('/').next().unwrap_or_default();
        ["h2c", "h2", "tls", "http", "connect-udp", "connect-ip"]
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other))
    };
    (headers.get_all(UPGRADE).iter().count() == 1 && !protocols.any(hides)).then(|| wanted.clone())
}

/// Takes away what is not for the other side. An upgrade that is to be asked for is put in again.
pub(super) fn strip(headers: &mut HeaderMap, upgrade: Option<&HeaderValue>) {
    let named: Vec<HeaderName> = listed(headers).filter_map(|option| option.parse().ok()).collect();
    for name in named.iter().filter(|name| !KEPT.contains(name)).chain(&OF_A_CONNECTION) {
        headers.remove(name);
    }
    if let Some(upgrade) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, upgrade.clone());
    }
}

fn listed(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in lines.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn what_is_the_connections_stays_with_it() {
        let mut all = headers(&[
            ("connection", "keep-alive, X-Own"),
            ("x-own", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("proxy-connection", "close"),
            ("te", "trailers"),
            ("x-other", "2"),
        ]);
        strip(&mut all, None);
        assert_eq!(all, headers(&[("te", "trailers"), ("x-other", "2")]));
    }

    #[test]
    fn nobody_has_the_host_or_the_length_taken_out() {
        let mut all = headers(&[
            ("connection", "Host, content-length, x-own"),
            ("host", "a.example"),
            ("content-length", "5"),
            ("x-own", "1"),
        ]);
        strip(&mut all, None);
        assert_eq!(all, headers(&[("host", "a.example"), ("content-length", "5")]));
    }

    #[test]
    fn an_upgrade_is_asked_for_unless_it_would_hide_names() {
        let asks = |protocol| upgrade(&headers(&[("connection", "Upgrade"), ("upgrade", protocol)]));
        assert_eq!(asks("websocket"), Some(HeaderValue::from_static("websocket")));
        for protocol in ["h2c", "H2C", "websocket, h2c", "TLS/1.0", "HTTP/2.0"] {
            assert_eq!(asks(protocol), None, "{protocol}");
        }
        assert_eq!(
            upgrade(&headers(&[("upgrade", "websocket")])),
            None,
            "the connection is not said to change"
        );
        let twice = [("connection", "upgrade"), ("upgrade", "websocket"), ("upgrade", "h2c")];
        assert_eq!(upgrade(&headers(&twice)), None);
    }
}
