//! A Docker engine of a test's own: its data, its socket and its containers are nobody else's. It
//! may be one that is reached as if it were on another machine.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use warren_isolate::EngineAddress;

use crate::backend::engine_address;
use crate::wait::eventually;

/// Longer than any of its steps takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fills the directory `$1` with a small root: the machine's own programs, and what they load.
const ROOT: &str = r#"
set -e
mkdir -p "$1"
cd "$1"
mkdir -p etc home lib lib64 root tmp usr/bin usr/lib var
chmod 1777 tmp
ln -s usr/bin bin
for name in bash sh true false echo sleep cat chmod cp dd env grep head id kill ln ls mkdir mkfifo mknod mount mv nproc \
    readlink rm rmdir seq stat sync tail test touch uname wc; do
    file=$(readlink -f "$(command -v "/usr/bin/$name" || command -v "/bin/$name")")
    cp "$file" "usr/bin/$name"
    for library in $(ldd "$file" | grep -o '/[^ ]*'); do
        mkdir -p ".${library%/*}"
        cp -L "$library" ".$library"
    done
done
echo 'root:x:0:0:root:/root:/bin/bash' >etc/passwd
echo 'user:x:1000:1000::/home:/bin/bash' >>etc/passwd
printf 'root:x:0:\nuser:x:1000:\n' >etc/group
"#;

/// Adds to the root in `$1` what a day's work needs.
const WORKSHOP: &str = r#"
set -e
cd "$1"
python=$(readlink -f /usr/bin/python3)
for file in "$python" /usr/bin/stty /usr/bin/cut /usr/bin/tr /usr/bin/find; do
    file=$(readlink -f "$file")
    cp "$file" usr/bin/
    for library in $(ldd "$file" | grep -o '/[^ ]*'); do
        mkdir -p ".${library%/*}"
        cp -L "$library" ".$library"
    done
done
ln -s "${python##*/}" usr/bin/python3
mkdir -p usr/lib home/user
cp -a "/usr/lib/${python##*/}" usr/lib/
rm -rf usr/lib/python3*/{test,idlelib,tkinter,ensurepip,config-*}
chown 1000:1000 home/user
printf 'root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n' >etc/passwd
"#;

/// An authority that says of an engine and its clients who they are.
pub struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

impl Authority {
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "it makes a key, which a default should not")]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key can be made");
        let certificate = params.self_signed(&key).expect("an authority can be made");
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// Writes what a client needs into a directory, and what an engine needs into `server` in it.
    #[track_caller]
    pub fn write(&self, directory: &Path) {
        self.write_one(directory, ExtendedKeyUsagePurpose::ClientAuth);
        self.write_one(&directory.join("server"), ExtendedKeyUsagePurpose::ServerAuth);
    }

    fn write_one(&self, directory: &Path, purpose: ExtendedKeyUsagePurpose) {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().expect("a key can be made");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate can be made");
        fs::create_dir_all(directory).expect("a directory");
        let write = |name: &str, text: String| fs::write(directory.join(name), text).expect("a file");
        write("ca.pem", self.certificate.pem());
        write("cert.pem", certificate.pem());
        write("key.pem", key.serialize_pem());
    }
}

/// `dockerd` on a directory of its own. What it holds is gone when it is dropped.
#[derive(Debug)]
pub struct DockerEngine {
    place: TempDir,
    daemon: Mutex<Option<Child>>,
    /// The port on which it asks for certificates.
    port: Option<u16>,
}

impl DockerEngine {
    /// The image that every engine here has.
    pub const IMAGE: &'static str = "little";
    /// The image that [`DockerEngine::import_workshop`] makes.
    pub const WORKSHOP: &'static str = "workshop";

    #[track_caller]
    #[expect(clippy::new_without_default, reason = "it touches the machine, which a default should not")]
    pub fn new() -> Self {
        Self::with(None)
    }

    /// One that is reached over TLS, by who has a certificate.
    #[track_caller]
    pub fn elsewhere() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        Self::with(Some(free.expect("there is a free port").port()))
    }

    #[track_caller]
    fn with(port: Option<u16>) -> Self {
        let disk =
            std::env::var_os("WARREN_TEST_DIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        let place = tempfile::Builder::new().prefix("warren-docker-").tempdir_in(disk);
        let place = place.expect("a directory for the engine can be made");
        if port.is_some() {
            Authority::new().write(&place.path().join("certificates"));
        }
        let engine = Self { place, daemon: Mutex::default(), port };
        engine.start();
        engine.import(Self::IMAGE, "ENV FROM_IMAGE=yes");
        engine
    }

    pub fn socket(&self) -> PathBuf {
        self.place.path().join("docker.sock")
    }

    /// The directory with that which a client shows it, and knows it by.
    pub fn certificates(&self) -> PathBuf {
        self.place.path().join("certificates")
    }

    pub fn is_elsewhere(&self) -> bool {
        self.port.is_some()
    }

    /// Where it is to be reached.
    pub fn address(&self) -> EngineAddress {
        let certificates = self.port.is_some().then(|| self.certificates());
        engine_address(&self.at(), certificates)
    }

    /// As [`DockerEngine::address`], as settings have it.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        match self.port {
            None => vec![("backends.docker_socket", self.at())],
            Some(_) => vec![
                ("backends.docker_host", self.at()),
                ("backends.docker_certificates", self.certificates().to_string_lossy().into_owned()),
            ],
        }
    }

    /// Tells another process of a test where it is.
    pub fn tell(&self, command: &mut Command) {
        command.env("WARREN_TEST_DOCKER", self.at());
        if self.port.is_some() {
            command.env("WARREN_TEST_DOCKER_CERTIFICATES", self.certificates());
        }
    }

    fn at(&self) -> String {
        let socket = || self.socket().to_string_lossy().into_owned();
        self.port.map_or_else(socket, |port| format!("tcp://127.0.0.1:{port}"))
    }

    /// Starts the daemon, and waits until it answers.
    #[track_caller]
    pub fn start(&self) {
        self.launch();
        eventually(PATIENCE, "the engine answers", || self.answers());
    }

    fn answers(&self) -> bool {
        self.try_ask("GET", "/_ping", &[]).is_some_and(|(status, _)| status == 200)
    }

    fn launch(&self) {
        let path = |name: &str| self.place.path().join(name);
        let log = fs::File::options().create(true).append(true).open(path("log")).expect("a log");
        let mut daemon = Command::new("dockerd");
        daemon.arg("--data-root").arg(path("data")).arg("--exec-root").arg(path("exec"));
        daemon.arg("--pidfile").arg(path("pid"));
        daemon.arg("--host").arg(format!("unix://{}", self.socket().display()));
        if let Some(port) = self.port {
            let certificate = |name: &str| path("certificates").join("server").join(name);
            daemon.arg("--host").arg(format!("tcp://127.0.0.1:{port}")).arg("--tlsverify");
            daemon.arg("--tlscacert").arg(certificate("ca.pem"));
            daemon.arg("--tlscert").arg(certificate("cert.pem")).arg("--tlskey").arg(certificate("key.pem"));
        }
        // Networks of the machine are not touched.
        daemon.args(["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"]);
        daemon.args(["--ip-masq=false", "--live-restore", "--oom-score-adjust=0"]);
        daemon.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
        daemon.stdout(log.try_clone().expect("a log")).stderr(log);
        let daemon = daemon.spawn().expect("`dockerd` can be started: scripts/install-test-deps installs it");
        *self.daemon.lock() = Some(daemon);
    }

    /// Ends the daemon at once. What runs in containers goes on.
    pub fn kill(&self) {
        self.end(Signal::KILL);
        // A daemon believes its own that was killed to be there, if that is still to be waited for.
        for file in ["pid", "exec/containerd/containerd.pid"] {
            drop(fs::remove_file(self.place.path().join(file)));
        }
    }

    fn end(&self, signal: Signal) {
        let Some(mut daemon) = self.daemon.lock().take() else { return };
        let pid = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw).expect("it has a number");
        let _ = rustix::process::kill_process(pid, signal);
        daemon.wait().expect("the engine can be waited for");
    }

    /// Makes an image of a small root.
    #[track_caller]
    pub fn import(&self, name: &str, change: &str) {
        self.import_made_by(name, &[ROOT], &[change]);
    }

    /// Makes the image with python3 and an ordinary user at home.
    #[track_caller]
    pub fn import_workshop(&self) {
        self.import_made_by(Self::WORKSHOP, &[ROOT, WORKSHOP], &["USER user", "WORKDIR /home/user"]);
    }

    #[track_caller]
    fn import_made_by(&self, name: &str, scripts: &[&str], changes: &[&str]) {
        let root = self.place.path().join("root");
        for script in scripts {
            let made = Command::new("bash").args(["-c", script, "bash"]).arg(&root).status();
            assert!(made.expect("a shell can be run").success(), "the root of an image can be made");
        }
        let packed = Command::new("tar").arg("--directory").arg(&root).args(["--create", "."]).output();
        let packed = packed.expect("tar can be run");
        assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
        fs::remove_dir_all(&root).expect("the root can be removed");
        let mut path = format!("/v1.41/images/create?fromSrc=-&repo={name}&tag=latest");
        for change in changes {
            path.push_str("&changes=");
            path.extend(change.bytes().map(|byte| format!("%{byte:02x}")));
        }
        let (status, answer) = self.ask("POST", &path, &packed.stdout);
        assert_eq!(status, 200, "{answer}");
    }

    /// One call of the engine's interface: the status and the body.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, String) {
        self.try_ask(method, path, body).expect("the engine answers")
    }

    fn try_ask(&self, method: &str, path: &str, body: &[u8]) -> Option<(u16, String)> {
        let mut stream = UnixStream::connect(self.socket()).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: engine\r\nContent-Type: application/x-tar\r\nContent-Length: {length}\r\n\r\n"
        )
        .ok()?;
        stream.write_all(body).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// The engine's own description of the container of a sandbox.
    #[track_caller]
    pub fn container(&self, sandbox: &str) -> serde_json::Value {
        self.described(&format!("warren-{sandbox}"))
    }

    /// The engine's own description of a container.
    #[track_caller]
    pub fn described(&self, name: &str) -> serde_json::Value {
        let (status, text) = self.ask("GET", &format!("/v1.41/containers/{name}/json"), &[]);
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("a container is described")
    }

    /// Names of all containers of a data directory.
    pub fn containers(&self, data_dir: &Path) -> Vec<String> {
        let instance = fs::read_to_string(data_dir.join("instance")).unwrap_or_default();
        let (_, text) = self.ask("GET", "/v1.41/containers/json?all=1", &[]);
        let all: Vec<serde_json::Value> = serde_json::from_str(&text).expect("containers are listed");
        let ours = all.iter().filter(|found| found["Labels"]["warren.instance"] == instance.as_str());
        ours.map(|found| found["Names"][0].to_string()).collect()
    }

    /// Names of all volumes of a data directory.
    pub fn volumes(&self, data_dir: &Path) -> Vec<String> {
        let instance = fs::read_to_string(data_dir.join("instance")).unwrap_or_default();
        let (_, text) = self.ask("GET", "/v1.41/volumes", &[]);
        let all: serde_json::Value = serde_json::from_str(&text).expect("volumes are listed");
        let all = all["Volumes"].as_array().into_iter().flatten();
        let ours = all.filter(|found| found["Labels"]["warren.instance"] == instance.as_str());
        ours.map(|found| found["Name"].to_string()).collect()
    }

    fn remove_all(&self) {
        let Some((_, text)) = self.try_ask("GET", "/v1.41/containers/json?all=1", &[]) else { return };
        for found in serde_json::from_str::<Vec<serde_json::Value>>(&text).unwrap_or_default() {
            if let Some(id) = found["Id"].as_str() {
                self.try_ask("DELETE", &format!("/v1.41/containers/{id}?force=1"), &[]);
            }
        }
    }
}

impl Drop for DockerEngine {
    fn drop(&mut self) {
        if self.daemon.lock().is_none() {
            // A test failed while it was away.
            self.launch();
            let begun = Instant::now();
            while !self.answers() && begun.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        self.remove_all();
        self.end(Signal::TERM);
        // It binds its data to itself, and leaves that if it was killed.
        let _ = unmount(self.place.path().join("data"), UnmountFlags::DETACH);
    }
}
