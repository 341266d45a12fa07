//! A registry of container images of a test's own: Debian's, on a loopback address, filled with
//! images that the test makes itself.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::wait::eventually;

const PATIENCE: Duration = Duration::from_secs(60);

/// The user whom a registry with credentials knows, and the password.
pub const LOGIN: (&str, &str) = ("ada", "s3cret:word");

/// The same as the registry reads it.
const LOGIN_LINE: &str = "ada:$2b$04$6lLaUJ26gIGPRcYyMEPGLuCnhrizPqCY1.vg7rf6qubc/Sqtr.6TO\n";

/// How a registry is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistryKind {
    /// Without TLS, open to everybody.
    Plain,
    /// With TLS, for [`LOGIN`] alone.
    Closed,
}

/// A registry that runs. It ends with the test.
#[derive(Debug)]
pub struct Registry {
    child: Child,
    kind: RegistryKind,
    place: PathBuf,
    port: u16,
}

impl Registry {
    /// Starts one.
    pub fn new(env: &TestEnv, kind: RegistryKind) -> Self {
        let place = env.path(&format!("registry-{kind:?}"));
        fs::create_dir_all(&place).expect("there is room for a registry");
        let port = free_port();
        let mut http = json!({"addr": format!("127.0.0.1:{port}")});
        let mut config = json!({
            "version": "0.1", "log": {"level": "error"}, "storage": {"filesystem": {"rootdirectory": place.join("data")}},
        });
        if kind == RegistryKind::Closed {
            let (certificate, key) = certificate(&place);
            http["tls"] = json!({"certificate": certificate, "key": key});
            fs::write(place.join("logins"), LOGIN_LINE).expect("there is room for a registry");
            config["auth"] = json!({"htpasswd": {"realm": "test", "path": place.join("logins")}});
        }
        config["http"] = http;
        // JSON is YAML as well.
        fs::write(place.join("config.yml"), config.to_string()).expect("there is room for a registry");
        let log = fs::File::create(place.join("log")).expect("there is room for a registry");
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(place.join("config.yml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be opened twice"))
            .stderr(log)
            .spawn()
            .expect("docker-registry is installed: scripts/install-test-deps");
        eventually(PATIENCE, "the registry answers", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self { child, kind, place, port }
    }

    /// Its host, as names of images have it.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The certificate by which it is known.
    pub fn certificate(&self) -> PathBuf {
        self.place.join("cert.pem")
    }

    /// Copies an image that lies in a directory as an OCI layout here, under a name with a tag.
    pub fn push(&self, layout: &Path, name: &str) {
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false"]);
        if self.kind == RegistryKind::Closed {
            skopeo.arg(format!("--dest-creds={}:{}", LOGIN.0, LOGIN.1));
        }
        skopeo
            .arg(format!("oci:{}:latest", layout.display()))
            .arg(format!("docker://{}/{name}", self.host()));
        let output = skopeo.output().expect("skopeo is installed: scripts/install-test-deps");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, Signal::KILL).ok();
        self.child.wait().ok();
    }
}

fn free_port() -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    socket.local_addr().expect("a socket has an address").port()
}

fn certificate(place: &Path) -> (PathBuf, PathBuf) {
    let (certificate, key) = (place.join("cert.pem"), place.join("key.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=registry", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-out"])
        .arg(&certificate)
        .arg("-keyout")
        .arg(&key)
        .output()
        .expect("openssl can be run");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate, key)
}

/// Makes an OCI layout of layers, which are archives by their paths, the lowest first.
pub fn image_layout(at: &Path, layers: &[PathBuf], config: &Value) {
    let blobs = at.join("blobs/sha256");
    fs::create_dir_all(&blobs).expect("there is room for a registry");
    let put = |bytes: &[u8], kind: &str| -> Value {
        let digest = sha256(at, bytes);
        fs::write(blobs.join(&digest), bytes).expect("there is room for a registry");
        json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": bytes.len()})
    };
    let described: Vec<_> = layers
        .iter()
        .map(|layer| {
            put(
                &fs::read(layer).expect("there is room for a registry"),
                "application/vnd.oci.image.layer.v1.tar+gzip",
            )
        })
        .collect();
    let ids: Vec<_> = layers.iter().map(|layer| format!("sha256:{}", plain_sha256(layer))).collect();
    let mut whole =
        json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ids}});
    whole["config"] = config.clone();
    let config = put(whole.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json");
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": described});
    let mut descriptor = put(manifest.to_string().as_bytes(), kind);
    descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": "latest"});
    descriptor["platform"] = json!({"architecture": "amd64", "os": "linux"});
    let index = json!({"schemaVersion": 2, "manifests": [descriptor]});
    fs::write(at.join("index.json"), index.to_string()).expect("there is room for a registry");
    fs::write(at.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)
        .expect("there is room for a registry");
}

/// The digits of a digest, by a program that is not ours.
pub fn sha256(place: &Path, bytes: &[u8]) -> String {
    let path = place.join("hashed");
    fs::write(&path, bytes).expect("there is room for a registry");
    let digest = sum(&format!("sha256sum < {}", path.display()));
    fs::remove_file(path).expect("there is room for a registry");
    digest
}

fn plain_sha256(layer: &Path) -> String {
    sum(&format!("gzip -dc < {} | sha256sum", layer.display()))
}

fn sum(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().expect("a shell can be run");
    String::from_utf8_lossy(&output.stdout)[..64].to_owned()
}
