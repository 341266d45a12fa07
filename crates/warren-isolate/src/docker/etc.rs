//! The files that an engine writes for a container's network. In the network of another container
//! they would be that one's, and sandboxes would share them: each has its own, read-only.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use warren_core::CreateRequest;

use crate::linux::DEFAULT_HOSTNAME;

/// Their directory in that of a sandbox.
const DIRECTORY: &str = "etc";
/// Our own server answers, by any name that is asked for here.
const RESOLVER: &str = "nameserver 169.254.77.1\noptions timeout:5 attempts:2\n";

/// The machine's name in a sandbox.
pub(super) fn hostname(request: &CreateRequest) -> &str {
    request.spec.hostname.as_deref().unwrap_or(DEFAULT_HOSTNAME)
}

/// Where they are, each with its place inside.
pub(super) fn files(sandbox: &Path) -> [(PathBuf, &'static str); 3] {
    ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"]
        .map(|inside| (sandbox.join(inside.trim_start_matches('/')), inside))
}

pub(super) fn make(sandbox: &Path, request: &CreateRequest) -> io::Result<()> {
    let hostname = hostname(request);
    fs::DirBuilder::new().mode(0o755).create(sandbox.join(DIRECTORY))?;
    let hosts = format!("127.0.0.1 localhost {hostname}\n::1 localhost ip6-localhost ip6-loopback\n");
    for ((path, _), text) in
        files(sandbox).into_iter().zip([hosts, format!("{hostname}\n"), RESOLVER.to_owned()])
    {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
        file.write_all(text.as_bytes())?;
    }
    Ok(())
}
