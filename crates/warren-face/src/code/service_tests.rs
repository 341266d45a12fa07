//! Runs the service's own tests against it, started as a sandbox starts it. They need Debian's
//! python3-ipykernel, python3-matplotlib, python3-pandas and nodejs, and those of other languages
//! r-cran-irkernel and default-jdk-headless.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::bundle;

/// The distribution's own: others do not have its packages.
const PYTHON: &str = "/usr/bin/python3";

struct Running {
    process: Child,
    port: String,
}

impl Drop for Running {
    /// In a sandbox everything ends with it. Here R's kernel would live on without the service.
    fn drop(&mut self) {
        let pid = self.process.id();
        let kernels = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        for kernel in kernels.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
            kill_process(kernel, Signal::KILL).ok();
        }
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// True if everything that the tests need is there. Where tests must not be left out, it has to be.
fn can_run() -> bool {
    let needed = "import ipykernel, jupyter_client, matplotlib, pandas";
    let python = Command::new(PYTHON).args(["-c", needed]).stderr(Stdio::null()).status();
    let node = Command::new("node").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let can = [python, node].into_iter().all(|status| status.is_ok_and(|status| status.success()));
    can || left_out("python3-ipykernel, python3-matplotlib, python3-pandas and nodejs")
}

/// The same for R and Java.
fn can_run_languages() -> bool {
    let has = |program: &str| {
        let status =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let r = Path::new("/usr/share/jupyter/kernels/ir").exists() && has("R");
    can_run() && (r && has("javac") || left_out("r-cran-irkernel and default-jdk-headless"))
}

fn left_out(needed: &str) -> bool {
    assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "install {needed}");
    eprintln!("left out: there is not all of {needed}");
    false
}

fn start() -> Running {
    let home = std::env::temp_dir();
    let mut process = Command::new(PYTHON)
        .args(["-u", "-", "0"])
        .current_dir("/")
        .env("HOME", &home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(&bundle::script()).unwrap();
    let mut port = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
    Running { process, port: port.trim().to_owned() }
}

fn run(tests: &str, can_run: bool) {
    if !can_run {
        return;
    }
    let running = start();
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/code/service");
    // Bounded, whatever a cell waits for.
    let mut command = Command::new("timeout");
    command.args(["300", PYTHON, "-B"]).arg(place.join(tests)).arg(&running.port).arg("-v");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_service_runs_cells_in_contexts_and_streams_what_they_do() {
    run("test_service.py", can_run());
}

#[test]
fn the_service_tells_figures_and_tables_as_data() {
    run("test_figures.py", can_run());
}

#[test]
fn the_service_runs_r_and_java() {
    run("test_languages.py", can_run_languages());
}
