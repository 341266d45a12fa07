//! Errors about templates, in words that E2B's clients look for.

use warren_core::{BuildFailure, ErrorCode, ImageDenied, ImageRefError};
use warren_engine::ImageError;
use warren_face::error::ApiError;

use crate::error::E2bError;

/// The message of a failed build.
pub(super) fn message(failure: &BuildFailure) -> String {
    match &failure.unknown_user {
        Some(unknown) => format!(
            "failed to run command '{}': command failed: unauthenticated: invalid username: '{}'",
            unknown.command, unknown.user
        ),
        None => failure.message.clone(),
    }
}

pub(super) fn missing(name: &str) -> E2bError {
    E2bError::not_found(format!("template '{name}' not found"))
}

impl From<ImageRefError> for E2bError {
    fn from(error: ImageRefError) -> Self {
        Self::bad_request(match error {
            ImageRefError::Form { text } => format!(
                "`{text}` is no template: write `name`, `name:tag`, `owner/name:tag` or an id, of letters, digits, `-`, `_` and `.`"
            ),
            ImageRefError::Dot { name } => {
                format!("`{name}` has a dot: a template's name has letters, digits, `-` and `_`")
            }
            error @ (ImageRefError::Owner { .. } | ImageRefError::Tag { .. }) => error.to_string(),
        })
    }
}

impl From<ImageError> for E2bError {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::NotFound { name } => missing(&name),
            ImageError::NotBuilt { name, tag, why } => {
                Self::not_found(format!("template '{name}' with tag '{tag}' not found: {why}"))
            }
            ImageError::Denied { name, denied } => Self::of_denied(&name, denied),
            ImageError::TooMany { most } => {
                Self::bad_request(format!("there are {most} templates and snapshots already: delete some"))
            }
            ImageError::NoRoom => Self::bad_request(
                "your templates and snapshots take too much room with all their variables: delete some",
            ),
            error @ ImageError::TooManyBuilds { .. } => Self::new(ErrorCode::MaxBuilds, error.to_string()),
            ImageError::TooManySteps { most } => {
                Self::bad_request(format!("steps: a build has up to {most} steps"))
            }
            ImageError::Step { index, source } => Self::bad_request(format!("steps[{index}]: {source}")),
            ImageError::NotReady { seconds } => Self::new(
                ErrorCode::TimedOut,
                format!(
                    "the template's ready command did not succeed within {seconds} s: build the template with one that does"
                ),
            ),
            ImageError::Files(error) => ApiError::internal(error).into(),
            ImageError::Engine(error) => error.into(),
        }
    }
}

impl E2bError {
    fn of_denied(name: &str, denied: ImageDenied) -> Self {
        match denied {
            ImageDenied::NoBuild { build } => {
                Self::not_found(format!("the template `{name}` has no build `{build}`"))
            }
            denied @ ImageDenied::Begun { .. } => Self::conflict(denied.to_string()),
            ImageDenied::NoTag { tag } => Self::not_found(format!("`{name}` has no tag `{tag}`")),
            ImageDenied::NotReady { tag } => {
                Self::not_found(format!("`{name}` has no build with the tag `{tag}`"))
            }
            ImageDenied::TooManyTags => Self::bad_request("a template has up to 100 tags: take some away"),
        }
    }
}

#[cfg(test)]
mod tests {
    use warren_core::UnknownUser;

    use super::*;

    #[test]
    fn an_unknown_user_is_told_as_clients_expect() {
        let unknown = UnknownUser { command: "whoami".to_owned(), user: "root123".to_owned() };
        let mut failure = BuildFailure {
            message: "failed to run command 'whoami': there is no user 'root123'".to_owned(),
            step: "1".to_owned(),
            unknown_user: Some(unknown),
        };
        let told =
            "failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'";
        assert_eq!(message(&failure), told);
        failure.unknown_user = None;
        assert_eq!(message(&failure), failure.message);
    }
}
