//! The OpenAPI document of `/v1`. `openapi/warren-v1.json` is what it was at the last commit: a
//! test fails when the two differ.

use std::sync::LazyLock;

use utoipa::openapi::{Info, InfoBuilder, LicenseBuilder};
use warren_face::openapi::document;

use crate::routes::route_table;

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let mut text = serde_json::to_string_pretty(&document(info(), route_table())).unwrap_or_default();
    text.push('\n');
    text
});

/// The document as JSON.
pub(crate) fn text() -> &'static str {
    &TEXT
}

fn info() -> Info {
    let about = "Sandboxes for agents: sessions that never lose work. Errors are `application/problem+json`; branch on `code`. \
                 A thing of another owner is answered like one that does not exist.";
    InfoBuilder::new()
        .title("Warren")
        .version("1")
        .description(Some(about))
        .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
        .build()
}

#[cfg(test)]
#[path = "openapi_tests.rs"]
mod tests;
