use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use warren_wire::client::Client;

use super::network::RESOLVER;
use crate::machine::meminfo;

/// The time that a server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that used no processor for so long has nothing to do in the background.
const STANDSTILL: Duration = Duration::from_millis(20);
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// A server on a data directory of its own. Dropping this removes both.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    program: PathBuf,
    folder: PathBuf,
    /// Settings beyond those of every server here.
    settings: Vec<String>,
    url: String,
    key: String,
}

impl Server {
    pub(super) fn start(program: &Path, folder: &Path, settings: &[&str]) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let settings: Vec<String> = settings.iter().map(|&word| word.to_owned()).collect();
        let (child, url, key) = launch(program, folder, &settings)?;
        Ok(Self { child, program: program.to_owned(), folder: folder.to_owned(), settings, url, key })
    }

    pub(super) fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::new(&self.url, &self.key)?)
    }

    /// The directory with its data.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The variables that lead a command to it.
    pub(super) fn variables(&self) -> [(&'static str, &str); 2] {
        [("WARREN_URL", &self.url), ("WARREN_API_KEY", &self.key)]
    }

    /// Kills it, starts it again, and answers the time from the start until it was ready.
    pub(super) fn restart(&mut self) -> anyhow::Result<Duration> {
        self.child.kill().and_then(|()| self.child.wait())?;
        let begun = Instant::now();
        (self.child, self.url, self.key) = launch(&self.program, &self.folder, &self.settings)?;
        Ok(begun.elapsed())
    }

    /// Resident memory, in KiB.
    pub(super) fn memory_kib(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        meminfo(&text).get("VmRSS").copied().unwrap_or(0)
    }

    /// Waits until it has nothing to do in the background, so that what is measured next does not
    /// pay for what was measured before. It may take a second at the most.
    pub(super) fn settle(&self) {
        let (begun, trash) = (Instant::now(), self.data_dir().join("trash"));
        while begun.elapsed() < SETTLED_AFTER {
            let used = self.processor_time();
            std::thread::sleep(STANDSTILL);
            let empty = fs::read_dir(&trash).is_ok_and(|mut entries| entries.next().is_none());
            if empty && self.processor_time() == used {
                return;
            }
        }
    }

    /// The size of its catalog with all that belongs to it, in MiB.
    pub(super) fn catalog_mib(&self) -> f64 {
        let files = ["catalog.db", "catalog.db-wal"].map(|name| self.data_dir().join(name));
        let bytes: u64 = files.iter().filter_map(|file| fs::metadata(file).ok()).map(|file| file.len()).sum();
        bytes as f64 / f64::from(1 << 20)
    }

    /// Processor time used so far.
    pub(super) fn processor_time(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let fields =
            text.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect::<Vec<_>>()).unwrap_or_default();
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Duration::from_millis((ticks(11) + ticks(12)) * 1000 / per_second)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(client) = self.client() {
            while let Ok(page) = client.sandboxes(&Default::default()) {
                if page.items.is_empty() {
                    break;
                }
                for sandbox in page.items {
                    drop(client.delete_sandbox(&sandbox.sandbox_id));
                }
            }
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap_or_default();
        }
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn launch(program: &Path, folder: &Path, settings: &[String]) -> anyhow::Result<(Child, String, String)> {
    let lines = folder.join("server.env");
    drop(fs::remove_file(&lines));
    let mut child = Command::new(program)
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--max-sandboxes",
            "2000",
            "--set",
            "network.default=none",
        ])
        .args(["--set", &format!("network.dns=[\"{RESOLVER}\"]"), "--data-dir"])
        .arg(folder.join("data"))
        .args(settings)
        .arg("--env-file")
        .arg(&lines)
        .env_remove("WARREN_URL")
        .env_remove("WARREN_API_KEY")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("server.log"))?)
        .spawn()?;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some((url, key)) = read(&lines) {
            return Ok((child, url, key));
        }
        if child.try_wait()?.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(child.kill());
    drop(child.wait());
    let log = fs::read_to_string(folder.join("server.log")).unwrap_or_default();
    let said: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Err(anyhow::anyhow!("the server did not start: {}", said[said.len().saturating_sub(3)..].join(" ")))
}

/// The lines are there once the server is ready.
fn read(lines: &Path) -> Option<(String, String)> {
    let text = fs::read_to_string(lines).ok()?;
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    Some((value("WARREN_URL")?, value("WARREN_API_KEY")?))
}
