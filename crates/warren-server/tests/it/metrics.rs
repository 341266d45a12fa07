use serde_json::json;

use crate::support::TestServer;

#[test]
fn figures_are_counted_and_readable() {
    let server = TestServer::start();
    server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201);
    server.stranger("GET", "/v1/sandboxes").send().expect(401);
    server.call("GET", "/no/such/route/1").send().expect(404);
    server.call("BREW", "/no/such/route/2").send().expect(404);
    let answer = server.call("GET", "/metrics").send().expect(200);
    assert!(answer.header("content-type").unwrap().starts_with("text/plain"));
    let text = String::from_utf8(answer.body).unwrap();
    for line in [
        "warren_auth_failures_total 1",
        "warren_sandboxes_created_total 1",
        r#"warren_sandboxes{state="active"} 1"#,
        r#"warren_http_request_seconds_count{method="POST",route="/v1/sandboxes",status="201"} 1"#,
        r#"warren_http_request_seconds_count{method="-",route="-",status="404"} 2"#,
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn figures_are_for_administrators() {
    let server = TestServer::start();
    server.stranger("GET", "/metrics").send().expect(401);
    let key = server.key("default", warren_core::Scope::Use);
    server.stranger("GET", "/metrics").key(&key).send().expect(403);
}
