use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

static BINARY: OnceLock<PathBuf> = OnceLock::new();

/// The `warren` under test, built with the profile of the tests unless `WARREN_BIN` names one.
pub(crate) fn warren() -> &'static Path {
    BINARY.get_or_init(|| std::env::var_os("WARREN_BIN").map_or_else(build, PathBuf::from))
}

/// A package's tests know only the binaries of the same package, so cargo is asked, in its own
/// words, for this one.
fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "-p", "warren", "--message-format", "json-render-diagnostics"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo can be started");
    assert!(output.status.success(), "warren was not built: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut executables = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    executables.rfind(|path| path.ends_with("warren")).expect("cargo names the binary")
}
