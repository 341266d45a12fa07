use std::error::Error;
use std::io;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::error::{ApiError, Code};

/// A whole body of at most so many bytes.
pub(crate) async fn read_body(body: Body, most: usize) -> Result<Bytes, ApiError> {
    match Limited::new(body, most).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::new(
            Code::PayloadTooLarge,
            format!("the body is longer than the {most} bytes allowed"),
        )),
        Err(error) => Err(broken(error.as_ref())),
    }
}

/// A body that did not come to its end.
fn broken(error: &(dyn Error + 'static)) -> ApiError {
    let mut causes = std::iter::successors(Some(error), |cause| (*cause).source());
    let slow = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut)
    };
    if causes.any(slow) {
        ApiError::new(Code::RequestTimeout, "the request's body took too long")
    } else {
        ApiError::new(Code::InvalidRequest, "the request's body broke off")
    }
}
