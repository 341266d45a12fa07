use axum::extract::{FromRef, FromRequest, Request};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::body::read_body;
use crate::desk::Desk;
use crate::error::{ApiError, Code};

/// How much of a reader's complaint is repeated: enough to recognise a value, never a megabyte of
/// it.
const LONGEST_DETAIL: usize = 300;

/// A JSON body, in both directions.
#[derive(Debug, Clone)]
pub struct Json<T>(pub T);

/// A JSON body that may be left out, for requests that need not say anything.
#[derive(Debug, Clone)]
pub struct JsonOrNothing<T>(pub T);

impl<T, S> FromRequest<S> for JsonOrNothing<T>
where
    T: DeserializeOwned + Serialize + Default,
    S: Send + Sync,
    Desk: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if request.body().is_end_stream() {
            return Ok(Self(T::default()));
        }
        Json::from_request(request, state).await.map(|Json(body)| Self(body))
    }
}

impl<T, S> FromRequest<S> for Json<T>
where
    T: DeserializeOwned + Serialize,
    S: Send + Sync,
    Desk: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if !says_json(request.headers()) {
            return Err(no_json());
        }
        let most = usize::try_from(Desk::from_ref(state).config.http.max_body).unwrap_or(usize::MAX);
        let bytes = read_body(request.into_body(), most).await?;
        read(&bytes).map(Json)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => (StatusCode::OK, [(CONTENT_TYPE, "application/json")], bytes).into_response(),
            Err(error) => ApiError::internal(error).into_response(),
        }
    }
}

/// A body that does not say what it is. Any page may make a browser send one of those without
/// asking.
pub fn no_json() -> ApiError {
    ApiError::new(Code::UnsupportedMediaType, "send JSON, with Content-Type: application/json")
        .field("Content-Type")
}

/// `application/json`, in UTF-8 if it says at all.
pub fn says_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let mut parts = value.split(';').map(str::trim);
    let json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    let utf8 = |part: &str| match part.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    };
    json && parts.all(utf8)
}

/// Reads a body. One that is no JSON is a bad request; JSON of another shape is a bad value.
fn read<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<T, ApiError> {
    let no_json =
        |why: &str| ApiError::new(Code::InvalidRequest, format!("the body is not JSON: {}", shorten(why)));
    let text = std::str::from_utf8(bytes).map_err(|_| no_json("it is not UTF-8"))?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| no_json(&error.to_string()))?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        refused(&path, &error.into_inner())
    })?;
    if text.contains('[') { without_lists_for_objects(text, value) } else { Ok(value) }
}

/// A list was taken for the values of an object in their order. Nobody means that.
fn without_lists_for_objects<T: Serialize>(text: &str, value: T) -> Result<T, ApiError> {
    let written: Value = serde_json::from_str(text).map_err(|error| refused(".", &error))?;
    let understood = serde_json::to_value(&value).map_err(ApiError::internal)?;
    let detail = "expected an object, not a list";
    match list_for_object(&written, &understood) {
        None => Ok(value),
        Some(path) if path.is_empty() => Err(ApiError::new(Code::InvalidValue, detail)),
        Some(path) => Err(ApiError::invalid(path.trim_start_matches('.'), detail)),
    }
}

/// Where the two differ in that, as a path.
fn list_for_object(written: &Value, understood: &Value) -> Option<String> {
    match (written, understood) {
        (Value::Array(_), Value::Object(_)) => Some(String::new()),
        (Value::Object(written), Value::Object(understood)) => written.iter().find_map(|(name, value)| {
            let below = list_for_object(value, understood.get(name)?)?;
            Some(format!(".{name}{below}"))
        }),
        (Value::Array(written), Value::Array(understood)) => {
            let pairs = written.iter().zip(understood).enumerate();
            pairs.into_iter().find_map(|(index, (written, understood))| {
                let below = list_for_object(written, understood)?;
                Some(format!("[{index}]{below}"))
            })
        }
        _ => None,
    }
}

fn refused(path: &str, error: &serde_json::Error) -> ApiError {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    // Where a word out of several is wanted, the reader complains of anything else as if it were no
    // JSON.
    let detail = match text.strip_suffix(&place).unwrap_or(&text) {
        _ if !error.is_data() => "the value is of the wrong type or too large",
        detail => detail,
    };
    let field = field(path, detail);
    let detail = shorten(&in_words(detail));
    match field {
        Some(field) => ApiError::invalid(field, detail),
        None => ApiError::new(Code::InvalidValue, detail),
    }
}

/// A complaint without the names that types have in the server's own language.
fn in_words(detail: &str) -> String {
    let Some((given, expected)) = detail.rsplit_once(", expected ") else { return detail.to_owned() };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => "a whole number",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text",
        "a sequence" => "a list",
        "a map" => "an object",
        text if text.starts_with("struct ") => "an object",
        text => text,
    };
    format!("{given}, expected {expected}")
}

/// The field to blame. One that is missing or there twice is named by the complaint alone, for the
/// path ends above it.
fn field(path: &str, detail: &str) -> Option<String> {
    let above = (path != ".").then_some(path);
    let named = ["missing field `", "duplicate field `"].iter().find_map(|words| detail.strip_prefix(words));
    match (above, named.and_then(|rest| rest.strip_suffix('`'))) {
        (Some(above), Some(named)) => Some(format!("{above}.{named}")),
        (None, Some(named)) => Some(named.to_owned()),
        (above, None) => above.map(shorten),
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(LONGEST_DETAIL).collect()
}

#[cfg(test)]
mod tests {
    use warren_wire::api::{AcquireSession, CreateSandbox, Exec};

    use super::*;

    fn complaint<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> (u16, Option<String>) {
        match read::<T>(bytes) {
            Ok(_) => (200, None),
            Err(error) => (error.status().as_u16(), error.problem().field),
        }
    }

    #[test]
    fn the_field_to_blame_is_named() {
        let cases: [(&[u8], &str); 7] = [
            (br#"{"client": 7}"#, "client"),
            (br#"{"sandbox": {}}"#, "client"),
            (br#"{"client": "a", "clinet": 1}"#, "clinet"),
            (br#"{"client": "a", "sandbox": {"memory_mib": "512"}}"#, "sandbox.memory_mib"),
            (br#"{"client": "a", "sandbox": {"mounts": [{"source": "/a"}]}}"#, "sandbox.mounts[0].target"),
            (br#"{"client": "a", "sandbox": {"type": "toaster"}}"#, "sandbox.type"),
            (br#"{"client": "a", "client": "b"}"#, "client"),
        ];
        for (body, field) in cases {
            let text = String::from_utf8_lossy(body);
            assert_eq!(complaint::<AcquireSession>(body), (422, Some(field.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_list_is_never_taken_for_an_object() {
        let cases: [(&[u8], Option<&str>); 5] = [
            (b"[]", None),
            (br#"{"client": "a", "sandbox": []}"#, Some("sandbox")),
            (br#"{"client": "a", "sandbox": {"timeouts": [1, 2, 3]}}"#, Some("sandbox.timeouts")),
            (br#"{"client": "a", "sandbox": {"mounts": [["/a", "/b", true]]}}"#, Some("sandbox.mounts[0]")),
            (br#"{"client": "a", "required": [true]}"#, Some("required")),
        ];
        for (body, field) in cases {
            let (status, blamed) = complaint::<AcquireSession>(body);
            assert_eq!((status, blamed.as_deref()), (422, field), "{}", String::from_utf8_lossy(body));
        }
        let good = br#"{"client": "a", "sandbox": {"mounts": [{"source": "/a", "target": "/b"}]}}"#;
        assert_eq!(complaint::<AcquireSession>(good).0, 200);
    }

    #[test]
    fn what_is_no_json_is_a_bad_request() {
        let cases: [&[u8]; 8] = [
            b"",
            b"{",
            b"{}x",
            b"\xef\xbb\xbf{}",
            b"{\"template\": \"\xff\"}",
            b"nonsense",
            &[b'['; 100_000],
            b"{'a': 1}",
        ];
        for body in cases {
            let text = String::from_utf8_lossy(&body[..body.len().min(40)]);
            assert_eq!(complaint::<CreateSandbox>(body), (400, None), "{text}");
        }
    }

    #[test]
    fn depth_and_size_are_bad_values_and_no_danger() {
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        assert_eq!(complaint::<CreateSandbox>(&deep).0, 422);
        let nested = [br#"{"template": "#.as_slice(), &deep, b"}"].concat();
        assert_eq!(complaint::<CreateSandbox>(&nested), (422, Some("template".to_owned())));
        for body in [r#"{"pids": 1e400}"#, r#"{"pids": 99999999999999999999}"#, r#"{"type": 7}"#] {
            assert_eq!(complaint::<CreateSandbox>(body.as_bytes()).0, 422, "{body}");
        }
    }

    #[test]
    fn a_command_of_the_wrong_kind_is_explained() {
        let error = read::<Exec>(br#"{"command": 5}"#).unwrap_err().problem();
        assert_eq!(error.field.as_deref(), Some("command"));
        assert_eq!(error.detail, "expected a list of words, or one line for the shell");
    }

    #[test]
    fn a_wrong_type_is_told_in_words() {
        let told = |body: &str| read::<CreateSandbox>(body.as_bytes()).unwrap_err().problem().detail;
        assert_eq!(
            told(r#"{"memory_mib": "512"}"#),
            r#"invalid type: string "512", expected a whole number"#
        );
        assert_eq!(told(r#"{"cpus": true}"#), "invalid type: boolean `true`, expected a number");
        assert_eq!(told(r#"{"template": 5}"#), "invalid type: integer `5`, expected a text");
        assert_eq!(told(r#"{"mounts": {}}"#), "invalid type: map, expected a list");
        assert_eq!(told(r#"{"labels": 5}"#), "invalid type: integer `5`, expected an object");
        assert_eq!(told(r#"{"timeouts": 5}"#), "invalid type: integer `5`, expected an object");
    }

    #[test]
    fn a_long_value_is_not_repeated_whole() {
        let body = format!(r#"{{"memory_mib": "{}"}}"#, "x".repeat(100_000));
        let detail = read::<CreateSandbox>(body.as_bytes()).unwrap_err().problem().detail;
        assert!(detail.len() <= LONGEST_DETAIL, "{}", detail.len());
    }

    #[test]
    fn only_json_in_utf8_is_read() {
        let says = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().unwrap());
            says_json(&headers)
        };
        assert!(says("application/json") && says("Application/JSON; charset=\"UTF-8\""));
        assert!(!says("text/json") && !says("application/json; charset=latin1") && !says("text/plain"));
        assert!(!says_json(&HeaderMap::new()));
    }
}
