//! The report of `doctor` on the engine: there or not, how old, and what of it works here.

use std::error::Error as _;

use bollard::models::SystemInfo;
use warren_core::{Check, CheckStatus};

use super::address::{EngineAddress, Way};
use super::client::{CallError, Client};
use super::upper;

const NAME: &str = "docker";
const ADVICE: &str = "install Docker (`apt-get install docker.io`) and start it, or say in `backends.docker_socket` or `backends.docker_host` where it is";

pub(super) fn examine(engine: &EngineAddress) -> Vec<Check> {
    let away = |why: String| vec![check(NAME, CheckStatus::Failed, why, ADVICE)];
    match Way::to(engine) {
        Err(why) => away(why),
        Ok(way) => Client::new(way).map_or_else(|error| away(error.to_string()), |client| report(&client)),
    }
}

pub(super) fn report(client: &Client) -> Vec<Check> {
    let (version, info) = match client.version().and_then(|version| Ok((version, client.info()?))) {
        Ok(answer) => answer,
        Err(error) => return vec![check(NAME, CheckStatus::Failed, whole(&error), ADVICE)],
    };
    let engine = info.server_version.as_deref().unwrap_or("of an unknown version");
    let found = format!("engine {engine}, API {version}, `{}`", client.way());
    let engine = check(NAME, CheckStatus::Ok, found, "");
    if client.way().is_far() {
        let found = "on another machine: no snapshots, no network but none, no disk limit";
        let far = check("docker storage", CheckStatus::Ok, found, "");
        return vec![engine, far, restarts(&info), seccomp(&info)];
    }
    vec![engine, storage(&info), restarts(&info), seccomp(&info)]
}

/// An error with what is behind it: a wrong certificate is not the same as nobody.
fn whole(error: &CallError) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
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
