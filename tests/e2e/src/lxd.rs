//! A daemon of LXD's of a test's own: started by hand, in a mount table of its own, with a pool and
//! an image, and ended by the numbers of its processes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use warren_core::{
    CreateRequest, Isolation, IsolationError, OwnerBond, RootImageName, SandboxId, SandboxSpec,
};

use crate::census::processes_of;
use crate::small_root;
use crate::wait::eventually;

/// The alias of its image.
pub const IMAGE: &str = "small";
/// The alias of an image for another kind of machine.
pub const FOREIGN_IMAGE: &str = "foreign";

const PATIENCE: Duration = Duration::from_secs(120);

/// The kind of its storage pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LxdPool {
    /// A directory, which holds nobody to a limit.
    Directory,
    /// A file system in a file.
    Btrfs,
}

/// The daemon. When it is dropped, its processes have ended and its mounts are gone.
#[derive(Debug)]
pub struct PrivateLxd {
    place: TempDir,
    /// Keeps the mount table, in which the daemon may be started anew.
    holder: Child,
    daemon: Child,
}

impl PrivateLxd {
    /// Starts a daemon with a pool and two images.
    ///
    /// # Panics
    /// With the reason if it cannot be started here.
    pub fn start(pool: LxdPool) -> Self {
        let disk =
            std::env::var_os("WARREN_TEST_DIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        // The path of a socket has 107 bytes.
        let place =
            tempfile::Builder::new().prefix("lxd-").tempdir_in(disk).expect("a directory can be made");
        fs::create_dir(place.path().join("data")).expect("a directory can be made");
        let mut holder = Command::new("unshare");
        // Whatever is mounted goes with the last process in there.
        holder.args(["--mount", "--propagation", "private", "sleep", "100000"]);
        let holder = holder.stdin(Stdio::null()).spawn().expect("unshare is there");
        let own = fs::read_link("/proc/self/ns/mnt").expect("the machine has mount tables");
        eventually(PATIENCE, "the mount table is made", || {
            fs::read_link(format!("/proc/{}/ns/mnt", holder.id())).is_ok_and(|table| table != own)
        });
        let daemon = spawn(place.path(), &holder);
        let mut lxd = Self { place, holder, daemon };
        lxd.wait();
        let body = match pool {
            LxdPool::Directory => json!({"name": "default", "driver": "dir"}),
            LxdPool::Btrfs => json!({"name": "default", "driver": "btrfs", "config": {"size": "3GiB"}}),
        };
        lxd.ask("POST", "/1.0/storage-pools", &body);
        lxd.import(IMAGE, "x86_64");
        lxd.import(FOREIGN_IMAGE, "riscv64");
        lxd
    }

    pub fn socket(&self) -> PathBuf {
        self.place.path().join("data/unix.socket")
    }

    /// Kills the daemon where it stands. Containers go on.
    pub fn kill(&mut self) {
        drop(self.daemon.kill());
        drop(self.daemon.wait());
    }

    /// Starts a daemon that was killed.
    pub fn restart(&mut self) {
        self.daemon = spawn(self.place.path(), &self.holder);
        self.wait();
    }

    /// Names of all instances.
    pub fn instances(&self) -> Vec<String> {
        let answer = self.ask("GET", "/1.0/instances", &Value::Null);
        let paths = answer["metadata"].as_array().cloned().unwrap_or_default();
        paths.iter().filter_map(|path| Some(path.as_str()?.rsplit('/').next()?.to_owned())).collect()
    }

    fn wait(&mut self) {
        let socket = self.socket();
        let mut ended = None;
        eventually(PATIENCE, "LXD answers", || {
            ended = self.daemon.try_wait().expect("a child can be asked for");
            ended.is_some()
                || request(&socket, "GET", "/1.0", &[]).is_some_and(|answer| answer["status_code"] == 200)
        });
        let said = || fs::read_to_string(self.place.path().join("log")).unwrap_or_default();
        assert!(ended.is_none(), "LXD does not start here, {ended:?}: {}", said());
    }

    fn import(&self, alias: &str, architecture: &str) {
        let image = self.place.path().join(format!("image-{alias}"));
        small_root::make(&image.join("rootfs"));
        let metadata =
            format!("architecture: {architecture}\ncreation_date: 1700000000\nproperties:\n  os: {alias}\n");
        fs::write(image.join("metadata.yaml"), metadata).expect("there is room");
        let archive = self.place.path().join("image.tar");
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(&image).arg("-cf").arg(&archive).args(["metadata.yaml", "rootfs"]);
        assert!(tar.status().expect("tar is there").success());
        let bytes = fs::read(&archive).expect("the archive is there");
        let answer = request(&self.socket(), "POST", "/1.0/images", &bytes).expect("LXD answers");
        let done = self.settled(&answer);
        let fingerprint =
            done["metadata"]["fingerprint"].as_str().unwrap_or_else(|| panic!("an image: {done}"));
        self.ask("POST", "/1.0/images/aliases", &json!({"name": alias, "target": fingerprint}));
        drop(fs::remove_dir_all(image));
    }

    /// Asks and waits for what is done.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let answer = request(&self.socket(), method, path, &bytes).expect("LXD answers");
        self.settled(&answer)
    }

    fn settled(&self, answer: &Value) -> Value {
        assert_ne!(answer["type"], "error", "{answer}");
        let operation = answer["operation"].as_str().unwrap_or_default();
        if operation.is_empty() {
            return answer.clone();
        }
        let path = format!("{operation}/wait?timeout=120");
        let done = request(&self.socket(), "GET", &path, &[]).expect("LXD answers")["metadata"].clone();
        assert_eq!(done["status_code"], 200, "{done}");
        done
    }
}

fn spawn(place: &Path, holder: &Child) -> Child {
    let log = fs::File::create(place.join("log")).expect("a log can be made");
    let errors = log.try_clone().expect("a descriptor can be copied");
    let mut daemon = Command::new("nsenter");
    daemon.args(["--mount", "--target", &holder.id().to_string(), "lxd", "--group", "root"]);
    daemon.env("LXD_DIR", place.join("data")).stdin(Stdio::null()).stdout(log).stderr(errors);
    daemon.spawn().expect("nsenter is there")
}

/// One request on a connection of its own; `None` if nobody answers.
fn request(socket: &Path, method: &str, path: &str, body: &[u8]) -> Option<Value> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let kind = if body.starts_with(b"{") { "application/json" } else { "application/octet-stream" };
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: lxd\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let at = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    serde_json::from_slice(&answer[at + 4..]).ok()
}

impl Drop for PrivateLxd {
    fn drop(&mut self) {
        self.kill();
        // What a failed test left running, and the monitors of its containers.
        let own = self.place.path().to_string_lossy().into_owned();
        let monitors = || {
            let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
            let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
            let is_one = |pid: &u32| {
                let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let words = String::from_utf8_lossy(&words).into_owned();
                words.starts_with("[lxc monitor]") && words.contains(&own)
            };
            pids.filter(is_one).collect::<Vec<u32>>()
        };
        for monitor in monitors() {
            let words = fs::read(format!("/proc/{monitor}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            let name = words.split_whitespace().last().unwrap_or_default().to_owned();
            let inside = processes_of(&format!("lxc.payload.{name}"));
            for pid in inside.into_iter().chain([monitor]) {
                let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a number");
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}

/// A request for a sandbox on the daemon's image, which the backend looks up.
pub fn lxd_request(
    backend: &dyn Isolation,
    id: SandboxId,
    spec: &SandboxSpec,
    owner: OwnerBond,
) -> Result<CreateRequest, IsolationError> {
    let image: RootImageName = IMAGE.parse().expect("it is a name");
    let mut request = CreateRequest::on_image(id, spec, owner, backend.image(&image.into())?);
    request.env.push("PATH=/usr/bin:/bin".to_owned());
    Ok(request)
}
