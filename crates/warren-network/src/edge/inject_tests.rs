use warren_core::network::SecretRecord;

use super::*;

const VALUE: &str = "s3cr3t-value-0123";

fn secret(injection: Injection) -> Secret {
    let record = SecretRecord {
        name: "token".parse().unwrap(),
        hosts: vec!["api.example".parse().unwrap()],
        injection,
        created_unix_ms: 0,
        changed_unix_ms: 0,
    };
    Secret { record, value: VALUE.to_owned() }
}

fn header_secret(header: &str, template: &str) -> Injections {
    Injections::new(vec![secret(Injection::Header {
        header: header.to_owned(),
        template: template.to_owned(),
    })])
}

fn placeholder_secret(placeholder: &str) -> Injections {
    Injections::new(vec![secret(Injection::Placeholder { placeholder: placeholder.to_owned() })])
}

fn headers(entries: &[(&str, &str)]) -> HeaderMap {
    let entry = |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    entries.iter().map(entry).collect()
}

fn applied(injections: &Injections, entries: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut headers = headers(entries);
    injections.apply(&mut headers).unwrap();
    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

fn pairs(entries: &[(&str, &str)]) -> Vec<(String, String)> {
    entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_header_is_set_whatever_the_client_sent_in_it() {
    let injections = header_secret("Authorization", "Bearer {}");
    let sent = [
        ("authorization", "Bearer mine"),
        ("accept", "*/*"),
        ("Authorization", "Basic bWluZTptaW5l"),
        ("x-api-key", "mine"),
        ("x_api_key", "mine"),
        ("proxy-authorization", "mine"),
    ];
    let wanted = pairs(&[("accept", "*/*"), ("authorization", "Bearer s3cr3t-value-0123")]);
    assert_eq!(applied(&injections, &sent), wanted);
    let injections = header_secret("X-Custom-Key", "{}");
    let sent = [("x_custom_key", "mine"), ("X-CUSTOM-KEY", "mine"), ("x-custom-key2", "mine")];
    assert_eq!(applied(&injections, &sent), pairs(&[("x-custom-key2", "mine"), ("x-custom-key", VALUE)]));
}

#[test]
fn a_placeholder_is_replaced_in_values_and_own_credentials_are_dropped() {
    let injections = placeholder_secret("WARREN_TOKEN");
    let sent = [
        ("authorization", "token WARREN_TOKEN"),
        ("x-other", "a WARREN_TOKEN and WARREN_TOKEN"),
        ("x-api-key", "mine"),
        ("accept", "*/*"),
    ];
    let wanted = pairs(&[
        ("authorization", "token s3cr3t-value-0123"),
        ("x-other", "a s3cr3t-value-0123 and s3cr3t-value-0123"),
        ("accept", "*/*"),
    ]);
    assert_eq!(applied(&injections, &sent), wanted);
    assert_eq!(applied(&injections, &[("authorization", "Bearer mine")]), []);
}

#[test]
fn a_placeholder_is_found_in_a_password() {
    let injections = placeholder_secret("WARREN_TOKEN");
    let sent = format!("Basic {}", STANDARD.encode("me:WARREN_TOKEN"));
    let wanted = format!("Basic {}", STANDARD.encode(format!("me:{VALUE}")));
    assert_eq!(applied(&injections, &[("authorization", &sent)]), pairs(&[("authorization", &wanted)]));
    for broken in ["Basic", "Basic !!!", "Basic /////w==", "Digest WAR"] {
        assert_eq!(applied(&injections, &[("authorization", broken)]), [], "{broken}");
    }
}

#[test]
fn what_grows_without_bound_is_refused() {
    let mut long = secret(Injection::Placeholder { placeholder: "WARREN_T".to_owned() });
    long.value = "x".repeat(16 << 10);
    let injections = Injections::new(vec![long]);
    let mut headers = headers(&[("x-a", &"WARREN_T".repeat(5))]);
    assert_eq!(injections.apply(&mut headers), Err(InjectError::TooLong));
    let mut headers: HeaderMap =
        (0..5).map(|n| (format!("x-{n}").parse().unwrap(), "WARREN_T".parse().unwrap())).collect();
    assert_eq!(injections.apply(&mut headers), Err(InjectError::TooLong));
}

#[test]
fn printed_headers_do_not_tell() {
    let mut headers = headers(&[]);
    header_secret("authorization", "Bearer {}").apply(&mut headers).unwrap();
    assert!(!format!("{headers:?}").contains("s3cr3t"));
}

#[test]
fn an_answers_headers_are_blotted() {
    let injections = header_secret("authorization", "Bearer {}");
    let mut headers = headers(&[("x-echo", "got Bearer s3cr3t-value-0123!"), ("x-other", "s3cr3t-value")]);
    injections.scrub(&mut headers);
    assert_eq!(headers["x-echo"], "got Bearer *****************!");
    assert_eq!(headers["x-other"], "s3cr3t-value");
}

#[test]
fn a_transform_sets_headers_and_leaves_the_others_to_the_client() {
    let headers = vec!["X-Env".to_owned(), "X-Api-Key".to_owned()];
    let mut transform = secret(Injection::Transform { headers });
    transform.value = format!("production\n{VALUE}");
    let injections = Injections::new(vec![transform]);
    let sent =
        [("x_env", "mine"), ("authorization", "Bearer its-own"), ("accept", "*/*"), ("x-api-key", "wrong")];
    let mut got = applied(&injections, &sent);
    got.sort();
    let expected = [
        ("accept", "*/*"),
        ("authorization", "Bearer its-own"),
        ("x-api-key", VALUE),
        ("x-env", "production"),
    ];
    assert_eq!(got, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(injections.blotted().collect::<Vec<_>>(), [VALUE.as_bytes()]);
}

#[test]
fn of_transforms_the_closest_counts() {
    let transform = |host: &str| {
        let mut secret = secret(Injection::Transform { headers: vec!["x-a".to_owned()] });
        secret.record.hosts = vec![host.parse().unwrap()];
        secret
    };
    let all = ["*.example.com", "api.example.com", "*.api.example.com"];
    let closest = |host: &str| {
        let host = host.parse().unwrap();
        let mut secrets: Vec<Secret> = all.iter().map(|host| transform(host)).collect();
        secrets.retain(|secret| secret.record.hosts[0].names(&host));
        // A secret that is named is put in, besides all others.
        secrets.push(secret(Injection::Placeholder { placeholder: "placeholder".to_owned() }));
        keep_closest(&mut secrets, &host);
        let hosts = secrets.iter().map(|secret| secret.record.hosts[0].to_string());
        hosts.collect::<Vec<_>>()
    };
    assert_eq!(closest("api.example.com"), ["api.example.com", "api.example"]);
    assert_eq!(closest("v1.api.example.com"), ["*.api.example.com", "api.example"]);
    assert_eq!(closest("www.example.com"), ["*.example.com", "api.example"]);
    assert_eq!(closest("elsewhere.example"), ["api.example"]);
}
