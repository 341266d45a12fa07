use axum::response::{Html, IntoResponse as _, Response};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use warren_core::{DenyReason, SandboxId};
use warren_engine::EngineError;
use warren_face::Asleep;
use warren_face::error::{ApiError, Code, status_of};
use warren_face::port::{is_closed, status_at_port};

use super::Target;
use super::route::Misdirected;

/// Why there is nothing to pass on.
#[derive(Debug)]
pub(super) struct Refusal {
    target: Option<(SandboxId, u16)>,
    wrong: Wrong,
}

/// A failure on the way to a port.
#[derive(Debug)]
pub(super) enum Wrong {
    Misdirected(Misdirected),
    Method,
    /// It is unknown, ended, or another owner's: the three cannot be told apart.
    NoSandbox,
    Paused,
    /// It does not wake, for some other reason than that nobody would wake it.
    Asleep(Asleep),
    Closed,
    /// Nothing was shown that opens it.
    Private,
    Token,
    Link,
    /// A page of another site tried.
    Foreign,
    /// A key that was shown does not open it.
    Key(Box<ApiError>),
    TooMany,
    /// The application did not answer in time.
    Silent,
    /// It hung up, or what it said is not HTTP, or too much of it.
    Garbled,
    /// The server could not reach it.
    Server(Code),
}

/// The reader of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    Program,
    /// Somebody who went there with a browser.
    Person,
}

/// The body for programs. The fields are those that clients of other sandboxes know.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(rename = "sandboxId", skip_serializing_if = "Option::is_none")]
    sandbox_id: Option<&'a str>,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    code: u16,
}

impl Reader {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let goes_there = text("sec-fetch-mode").is_none_or(|mode| mode == "navigate");
        let reads = text(ACCEPT.as_str()).is_some_and(|accept| accept.contains("text/html"));
        if goes_there && reads { Self::Person } else { Self::Program }
    }
}

impl Refusal {
    pub(super) fn misdirected(misdirected: Misdirected) -> Self {
        Self { target: None, wrong: Wrong::Misdirected(misdirected) }
    }

    pub(super) fn of(target: &Target, wrong: Wrong) -> Self {
        Self { target: Some((target.sandbox.clone(), target.port)), wrong }
    }

    pub(super) fn told(&self, reader: Reader) -> Response {
        if let Wrong::Key(error) = &self.wrong {
            error.log();
        }
        let (status, message) = (self.wrong.status(), self.wrong.sentence());
        let mut response = match reader {
            Reader::Person => (status, Html(self.page(status, &message))).into_response(),
            Reader::Program => {
                let told = Told {
                    sandbox_id: self.sandbox(),
                    message: &message,
                    port: self.target.as_ref().map(|(_, port)| *port).filter(|_| self.wrong.is_about_port()),
                    code: status.as_u16(),
                };
                (status, axum::Json(told)).into_response()
            }
        };
        response.extensions_mut().insert(self.wrong.code());
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'"),
        );
        if matches!(self.wrong, Wrong::NoSandbox | Wrong::Misdirected(Misdirected::Stranger(_))) {
            headers.insert("should-retry", HeaderValue::from_static("false"));
        }
        if let Some(seconds) = self.wrong.retry_after_s() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    fn sandbox(&self) -> Option<&str> {
        match (&self.wrong, &self.target) {
            (Wrong::Misdirected(Misdirected::Stranger(id)), _) => Some(id),
            (_, target) => target.as_ref().map(|(sandbox, _)| sandbox.as_str()),
        }
    }

    fn page(&self, status: StatusCode, message: &str) -> String {
        let message = message.replace('&', "&amp;").replace('<', "&lt;");
        let place = self
            .target
            .as_ref()
            .map(|(sandbox, port)| format!("<p>Port {port} of <code>{sandbox}</code></p>"))
            .unwrap_or_default();
        let advice = self.wrong.advice().map(|advice| format!("<p>{advice}</p>")).unwrap_or_default();
        let code = status.as_u16();
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{code}</title>\
             <meta name=\"viewport\" content=\"width=device-width\"><style>body{{font:16px/1.5 system-ui,sans-serif;\
             max-width:36rem;margin:20vh auto;padding:0 1rem;color:#222}}h1{{font-size:1.25rem}}p{{color:#555}}\
             @media(prefers-color-scheme:dark){{body{{background:#111;color:#eee}}p{{color:#aaa}}}}</style>\
             <h1>{message}</h1>{place}{advice}</html>\n"
        )
    }
}

impl Wrong {
    pub(super) fn from_engine(error: EngineError) -> Self {
        match error {
            EngineError::Denied { reason: DenyReason::Paused, .. } => Self::Paused,
            error @ EngineError::NotWoken { .. } => Asleep::because(&error).into(),
            error if error.is_changing() => Self::Server(Code::Busy),
            error if error.is_absent() => Self::NoSandbox,
            error if is_closed(&error) => Self::Closed,
            error => {
                let error = ApiError::from(error);
                error.log();
                Self::Server(error.code())
            }
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Misdirected(Misdirected::Stranger(_)) | Self::NoSandbox => Code::SandboxNotFound,
            Self::Misdirected(_) => Code::InvalidRequest,
            Self::Method => Code::MethodNotAllowed,
            Self::Paused => Code::WrongState,
            Self::Asleep(asleep) => asleep.code(),
            Self::Closed => Code::PortClosed,
            Self::Private => Code::PortPrivate,
            Self::Token => Code::PortTokenInvalid,
            Self::Link => Code::PortLinkInvalid,
            Self::Foreign => Code::ForeignRequest,
            Self::Key(error) => error.code(),
            Self::TooMany => Code::TooManyConnections,
            Self::Silent => Code::PortSilent,
            Self::Garbled => Code::PortGarbled,
            Self::Server(code) => *code,
        }
    }

    fn status(&self) -> StatusCode {
        status_at_port(self.code())
    }

    fn sentence(&self) -> String {
        let sentence = match self {
            Self::Misdirected(misdirected) => misdirected.sentence(),
            Self::Method => "This method is not passed on",
            Self::NoSandbox => "The sandbox was not found",
            Self::Paused => "The sandbox is paused",
            Self::Asleep(asleep) => asleep.sentence(),
            Self::Closed => "The sandbox is running but port is not open",
            Self::Private => "This port is private",
            Self::Token => "The traffic access token is not valid for this port",
            Self::Link => "The link is not valid, or its time is over",
            Self::Foreign => "Another site may not do this here",
            Self::Key(error) => return error.problem().detail,
            Self::TooMany => "The sandbox, or its owner, has as many connections as it may have",
            Self::Silent => "The application did not answer in time",
            Self::Garbled => "The application did not answer with HTTP that could be passed on",
            Self::Server(_) => "The server could not reach the sandbox",
        };
        sentence.to_owned()
    }

    /// The next thing to do, where a visitor can do something.
    fn advice(&self) -> Option<String> {
        let is_for_visitors =
            matches!(self, Self::Private | Self::Token | Self::Link | Self::Closed | Self::Paused);
        is_for_visitors.then(|| page_text(self.code().hint()))
    }

    /// True if another port of the sandbox may have answered.
    fn is_about_port(&self) -> bool {
        matches!(self, Self::Closed | Self::Silent | Self::Garbled)
    }

    fn retry_after_s(&self) -> Option<u64> {
        match self {
            Self::TooMany | Self::Asleep(_) => Some(1),
            Self::Server(code) if status_of(*code) == StatusCode::SERVICE_UNAVAILABLE => Some(1),
            Self::Key(error) => error.problem().retry_after_s,
            _ => None,
        }
    }
}

/// A hint as a sentence of a page: what is in backquotes becomes code.
fn page_text(hint: &str) -> String {
    let mut page = String::new();
    for (index, part) in hint.split('`').enumerate() {
        match index % 2 {
            0 if index == 0 => page.push_str(&capital(part)),
            0 => page.push_str(part),
            _ => page.push_str(&format!("<code>{part}</code>")),
        }
    }
    page + "."
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

impl From<Asleep> for Wrong {
    fn from(asleep: Asleep) -> Self {
        match asleep {
            Asleep::Gone => Self::NoSandbox,
            asleep => Self::Asleep(asleep),
        }
    }
}

impl From<ApiError> for Wrong {
    fn from(error: ApiError) -> Self {
        Self::Key(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use warren_testkit::assert_error_column;

    use super::*;

    #[test]
    fn the_table_of_errors_has_the_statuses_of_ports() {
        assert_error_column("ports", |code| status_at_port(code).as_u16().to_string());
    }

    #[test]
    fn a_page_tells_what_to_do_next() {
        let told = Wrong::Private.advice();
        let link = "Ask its owner for a link: <code>warren port ID PORT --link 1h</code> makes one.";
        assert_eq!(told.as_deref(), Some(link));
        assert_eq!(Wrong::NoSandbox.advice(), None);
    }
}
