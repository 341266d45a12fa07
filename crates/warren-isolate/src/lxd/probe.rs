//! The report of `doctor`: installed, running, how old, and what of it works here.

use std::path::Path;

use serde::Deserialize;
use warren_core::{Check, CheckStatus};

use super::client::{Client, LxdError};
use super::{Pool, SOCKETS, find_pool, find_socket};

/// Extensions of the interface without which sandboxes cannot be made.
const NEEDED: [&str; 4] = ["container_backup", "instances", "id_map", "resources_v2"];

#[derive(Debug, Deserialize)]
struct Server {
    #[serde(default)]
    api_extensions: Vec<String>,
    environment: Environment,
}

#[derive(Debug, Deserialize)]
struct Environment {
    server: String,
    server_version: String,
    #[serde(default)]
    driver_version: String,
}

fn check(
    name: &'static str,
    status: CheckStatus,
    found: impl Into<String>,
    advice: impl Into<String>,
) -> Check {
    Check { name, status, found: found.into(), advice: advice.into() }
}

pub(super) fn examine(socket: Option<&Path>, pool: Option<&str>) -> Vec<Check> {
    let Some(socket) = find_socket(socket) else {
        return vec![check(
            "lxd",
            CheckStatus::Failed,
            format!("no socket at {}", SOCKETS.join(", ")),
            "install LXD or Incus (Debian: apt install lxd) and run `lxd init`, or take `lxd` out of backends.enabled",
        )];
    };
    let client = Client::new(&socket);
    match client.get::<Server>("/1.0") {
        Ok(server) => {
            let mut checks = vec![version(&server, &socket)];
            checks.push(told_pool(&find_pool(&client, pool)));
            checks.push(told_images(&client));
            checks
        }
        Err(error @ LxdError::Away { .. }) => vec![check(
            "lxd",
            CheckStatus::Failed,
            format!("`{}` is there, and nobody answers", socket.display()),
            error.to_string(),
        )],
        Err(error) => vec![check(
            "lxd",
            CheckStatus::Failed,
            error.to_string(),
            "is it LXD's or Incus's socket? see lxd.socket",
        )],
    }
}

fn version(server: &Server, socket: &Path) -> Check {
    let Environment { server: name, server_version, driver_version } = &server.environment;
    let missing: Vec<&str> =
        NEEDED.into_iter().filter(|needed| !server.api_extensions.iter().any(|has| has == needed)).collect();
    let found = format!("{name} {server_version} with liblxc {driver_version}, `{}`", socket.display());
    if missing.is_empty() {
        return check("lxd", CheckStatus::Ok, found, "");
    }
    let advice = format!("install LXD 5.0 or later: this one lacks {}", missing.join(", "));
    check("lxd", CheckStatus::Failed, found, advice)
}

fn told_pool(pool: &Result<Pool, super::PoolError>) -> Check {
    match pool {
        Ok(pool) if pool.is_sized() => check(
            "lxd pool",
            CheckStatus::Ok,
            format!("`{}` ({}): holds sandboxes to their disk limit", pool.name, pool.driver),
            "",
        ),
        Ok(pool) => check(
            "lxd pool",
            CheckStatus::Warning,
            format!("`{}` ({}): nothing holds a sandbox to its disk limit", pool.name, pool.driver),
            "make a pool of btrfs, ZFS or LVM, and name it in lxd.pool",
        ),
        Err(error) => check("lxd pool", CheckStatus::Failed, "none that can be used", error.to_string()),
    }
}

fn told_images(client: &Client) -> Check {
    match client.get::<Vec<String>>("/1.0/images") {
        Ok(images) if images.is_empty() => check(
            "lxd images",
            CheckStatus::Warning,
            "none: there is nothing to start a sandbox on",
            "lxc image copy images:debian/12 local: --alias debian/12",
        ),
        Ok(images) => check("lxd images", CheckStatus::Ok, images.len().to_string(), ""),
        Err(error) => check("lxd images", CheckStatus::Failed, "cannot be listed", error.to_string()),
    }
}
