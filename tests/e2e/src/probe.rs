//! Programs for the inside of a sandbox.

const PRELUDE: &str = include_str!("../probes/prelude.py");

/// A Python program that can make raw system calls; see `probes/prelude.py` for its vocabulary.
pub fn probe(body: &str) -> Vec<String> {
    ["python3".to_owned(), "-c".to_owned(), format!("{PRELUDE}\n{body}")].into()
}

/// The probe of a file in `probes/`.
#[macro_export]
macro_rules! probe_file {
    ($name:literal) => {
        $crate::probe(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/probes/", $name)))
    };
}
