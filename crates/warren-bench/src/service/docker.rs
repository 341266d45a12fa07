use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::ground::Ground;
use crate::statistics::Lap;

const SOCKET: &str = "/var/run/docker.sock";
const PATIENCE: Duration = Duration::from_secs(60);

/// Docker's own HTTP interface, as a client library uses it: a connection per call.
#[derive(Debug)]
pub(super) struct Docker {
    /// The description of a container.
    container: Value,
}

impl Docker {
    /// Connects if a daemon answers. The image is the one that the benchmark imports for docker's
    /// command line.
    pub(super) fn connect(ground: &Ground) -> anyhow::Result<Self> {
        let limits = &ground.limits;
        let binds: Vec<String> = ground.volumes().collect();
        let container = json!({
            "Image": ground.prefix,
            "Cmd": ["/bin/sleep", "infinity"],
            "HostConfig": {
                "NetworkMode": "none",
                "ReadonlyRootfs": true,
                "Tmpfs": {"/tmp": ""},
                "Memory": limits.memory.0,
                "PidsLimit": limits.pids,
                "NanoCpus": u64::from(limits.cpus.milli()) * 1_000_000,
                "Binds": binds,
            },
        });
        let docker = Self { container };
        docker.call("GET", &format!("/images/{}/json", ground.prefix), None)?;
        Ok(docker)
    }

    pub(super) fn first_command(&self) -> anyhow::Result<Lap> {
        let begun = Instant::now();
        let container = self.create()?;
        let ran = self.run_true(&container);
        let time = begun.elapsed();
        self.remove(&container)?;
        ran.map(|()| Lap::of(time))
    }

    pub(super) fn create(&self) -> anyhow::Result<String> {
        let made = self.call("POST", "/containers/create", Some(&self.container))?;
        let id =
            made["Id"].as_str().ok_or_else(|| anyhow::anyhow!("docker made a container without an id"))?;
        self.call("POST", &format!("/containers/{id}/start"), None)?;
        Ok(id.to_owned())
    }

    pub(super) fn run_true(&self, container: &str) -> anyhow::Result<()> {
        let body = json!({"Cmd": ["/bin/true"], "AttachStdout": true, "AttachStderr": true});
        let exec = self.call("POST", &format!("/containers/{container}/exec"), Some(&body))?;
        let id = exec["Id"].as_str().ok_or_else(|| anyhow::anyhow!("docker made an exec without an id"))?;
        self.call("POST", &format!("/exec/{id}/start"), Some(&json!({"Detach": false, "Tty": false})))?;
        let seen = self.call("GET", &format!("/exec/{id}/json"), None)?;
        if seen["ExitCode"] == 0 {
            Ok(())
        } else {
            Err(anyhow::anyhow!("true ended with {}", seen["ExitCode"]))
        }
    }

    pub(super) fn remove(&self, container: &str) -> anyhow::Result<()> {
        self.call("DELETE", &format!("/containers/{container}?force=true"), None).map(drop)
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let answer = exchange(method, path, &body)?;
        let (head, rest) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).unwrap_or_default();
        if !status.starts_with('2') {
            anyhow::bail!("docker answered {method} {path} with {status}: {}", rest.trim());
        }
        // A body without a document, such as a command's output, is not needed.
        let start = rest.find('{').unwrap_or(rest.len());
        let end = rest.rfind('}').map_or(start, |end| end + 1);
        Ok(rest.get(start..end).and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null))
    }
}

fn exchange(method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(SOCKET)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
