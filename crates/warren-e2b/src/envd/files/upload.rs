use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body::Body as _;
use warren_core::FileDeed;
use warren_face::body::flowing;

use super::incoming::{BodyError, is_packed, pieces};
use super::{begin, metadata, parts, store};
use crate::envd::Visitor;
use crate::envd::path::Named;
use crate::envd::refusal::Refusal;

/// How a request's body holds its files.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    /// It is the file.
    Bare,
    /// As forms of browsers write them, with this text between the parts.
    Form(String),
}

impl Shape {
    fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let told = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = told.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("application/octet-stream") {
            return Ok(Self::Bare);
        }
        multer::parse_boundary(told).map(Self::Form).map_err(|_| {
            let wanted = "`multipart/form-data` with a boundary, or `application/octet-stream`";
            Refusal::bad_request(format!("the content type of an upload is {wanted}"))
        })
    }
}

/// Writes one file or several, each as it arrives.
pub(in crate::envd) async fn upload(mut visitor: Visitor, request: Request) -> Result<Response, Refusal> {
    let named = begin(&mut visitor, request.uri())?;
    let shape = Shape::of(request.headers())?;
    let (noted, is_packed) = (metadata::read(request.headers())?, is_packed(request.headers())?);
    let http = &visitor.state.config.http;
    if request.body().size_hint().lower() > http.max_upload {
        return Err(BodyError::TooLong(http.max_upload).into());
    }
    let body = flowing(request.into_body(), http.read_timeout);
    let mut pieces = pieces(body, is_packed, http.max_upload);
    let given = Some(named).filter(|named| *named != Named::Nowhere).map(|named| visitor.place(named));
    let stored = match (shape, given) {
        (Shape::Bare, Some(path)) => {
            let work = visitor.begin(FileDeed::Write, &path, None).await?;
            let stored = store::store(&visitor, &work, path, &noted, &mut pieces).await?;
            work.done();
            vec![stored]
        }
        (Shape::Bare, None) => {
            return Err(Refusal::bad_request("`path` is missing: it says where the file is to be"));
        }
        (Shape::Form(boundary), given) => {
            parts::store(&visitor, given, &noted, parts::Form { pieces, boundary }).await?
        }
    };
    Ok(Json(stored).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(value: &str) -> Option<Shape> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, value.parse().unwrap());
        Shape::of(&headers).ok()
    }

    #[test]
    fn uploads_have_two_shapes() {
        assert_eq!(shape("application/octet-stream"), Some(Shape::Bare));
        assert_eq!(shape("Application/Octet-Stream; charset=x"), Some(Shape::Bare));
        assert_eq!(shape("multipart/form-data; boundary=abc"), Some(Shape::Form("abc".to_owned())));
        assert_eq!((shape("multipart/form-data"), shape("text/plain"), shape("")), (None, None, None));
        assert!(Shape::of(&HeaderMap::new()).is_err());
    }
}
