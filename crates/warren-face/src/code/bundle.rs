use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;

/// The parts of the service, by the names that they have for each other.
const SOURCES: [(&str, &str); 10] = [
    ("contexts.py", include_str!("service/contexts.py")),
    ("figures.py", include_str!("service/figures.py")),
    ("http11.py", include_str!("service/http11.py")),
    ("jupyter.py", include_str!("service/jupyter.py")),
    ("kernel.java", include_str!("service/kernel.java")),
    ("kernel.js", include_str!("service/kernel.js")),
    ("kernels.py", include_str!("service/kernels.py")),
    ("piped.py", include_str!("service/piped.py")),
    ("results.py", include_str!("service/results.py")),
    ("serve.py", include_str!("service/serve.py")),
];

static SCRIPT: LazyLock<Bytes> = LazyLock::new(|| {
    let sources: BTreeMap<&str, &str> = SOURCES.into_iter().collect();
    // A text is written in JSON as in Python.
    let sources = serde_json::to_string(&sources).unwrap_or_default();
    Bytes::from(format!("SOURCES = {sources}\n{}", include_str!("service/start.py")))
});

/// The service as one text, for the standard input of a Python.
pub(super) fn script() -> Bytes {
    SCRIPT.clone()
}
