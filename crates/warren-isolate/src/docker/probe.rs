//! The report of `doctor` on the engine: there or not, how old, and what of it works here.

use std::path::Path;

use bollard::models::SystemInfo;
use warren_core::{Check, CheckStatus};

use super::client::{CallError, Client};
use super::upper;

pub(super) fn examine(socket: &Path) -> Vec<Check> {
    let name = "docker";
    let asked = Client::new(socket)
        .map_err(|source| CallError::Away { socket: socket.to_owned(), source: source.into() })
        .and_then(|client| Ok((client.version()?, client.info()?)));
    let (version, info) = match asked {
        Ok(answer) => answer,
        Err(error) => {
            let advice = "install Docker (`apt-get install docker.io`) and start it, or write its socket in `backends.docker_socket`";
            return vec![check(name, CheckStatus::Failed, error.to_string(), advice)];
        }
    };
    let engine = info.server_version.as_deref().unwrap_or("of an unknown version");
    let found = format!("engine {engine}, API {version}, `{}`", socket.display());
    vec![check(name, CheckStatus::Ok, found, ""), storage(&info), restarts(&info), seccomp(&info)]
}

fn check(name: &'static str, status: CheckStatus, found: impl Into<String>, advice: &str) -> Check {
    Check { name, status, found: found.into(), advice: advice.to_owned() }
}

fn storage(info: &SystemInfo) -> Check {
    let name = "docker storage";
    let driver = info.driver.as_deref().unwrap_or("unknown");
    match upper::hidden(info) {
        None => check(name, CheckStatus::Ok, format!("{driver}: snapshots are copies, no disk limit"), ""),
        Some(why) => {
            let advice = "take another backend for sandboxes that need snapshots or a disk limit";
            check(name, CheckStatus::Warning, format!("no snapshots: {why}; no disk limit"), advice)
        }
    }
}

/// Without it, containers end with the engine, and so do sandboxes.
fn restarts(info: &SystemInfo) -> Check {
    let name = "docker restarts";
    if info.live_restore_enabled.unwrap_or(false) {
        return check(name, CheckStatus::Ok, "sandboxes live on while the engine is restarted", "");
    }
    let advice = "set `live-restore: true` in /etc/docker/daemon.json";
    check(name, CheckStatus::Warning, "sandboxes end when the engine is restarted; their files stay", advice)
}

fn seccomp(info: &SystemInfo) -> Check {
    let name = "docker seccomp";
    let has = info.security_options.iter().flatten().any(|option| option.contains("name=seccomp"));
    if has {
        return check(name, CheckStatus::Ok, "filters can be loaded", "");
    }
    let advice = "use an engine and a kernel with seccomp";
    check(name, CheckStatus::Failed, "the engine has none", advice)
}
