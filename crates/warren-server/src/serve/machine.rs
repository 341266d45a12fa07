//! Tells if the whole machine ends, and not the server alone.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long systemd may take to say. It is asked while it has much else to do.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks systemd, where there is one. Elsewhere nobody knows, and sandboxes are ended by the one
/// that ends all processes.
pub(super) async fn goes_down() -> bool {
    if !Path::new("/run/systemd/system").is_dir() {
        return false;
    }
    let asked = tokio::task::spawn_blocking(|| {
        let mut question = Command::new("systemctl");
        question.arg("is-system-running").stdin(Stdio::null()).stderr(Stdio::null());
        // It ends with a code of its own for each answer, of which none is a failure.
        question.output().is_ok_and(|answer| answer.stdout.trim_ascii() == b"stopping")
    });
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(answer) => answer.unwrap_or(false),
        Err(_) => {
            tracing::warn!("systemd does not say whether the machine goes down: sandboxes are left alone");
            false
        }
    }
}

/// Puts all that was written on disk. The machine does the same at its very end, if it gets there.
pub(super) async fn sync(data_dir: &Path) {
    let data_dir = data_dir.to_owned();
    let synced = tokio::task::spawn_blocking(move || {
        let directory = File::open(data_dir)?;
        rustix::fs::syncfs(&directory).map_err(std::io::Error::from)
    });
    if let Ok(Err(error)) = synced.await {
        tracing::warn!(%error, "what sandboxes wrote last may not be on disk");
    }
}
