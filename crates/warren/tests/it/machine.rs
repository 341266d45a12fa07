//! The machine inside a sandbox is the sandbox's own.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use warren_testkit::{Census, ScratchData};

/// Reads a line of `/proc/meminfo`, in kB.
const PRELUDE: &str = "
import os, time, subprocess
def meminfo(name):
    return int(next(line.split()[1] for line in open('/proc/meminfo') if line.startswith(name + ':')))
def load():
    return float(open('/proc/loadavg').read().split()[0])
def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, open('/proc/loadavg').read() + open('/proc/meminfo').read()
        time.sleep(0.1)
";

/// A data directory, and `warren` on it.
struct TestEnv {
    data: ScratchData,
}

impl TestEnv {
    fn new() -> Self {
        assert!(rustix::process::geteuid().is_root(), "these tests make sandboxes: run them as root");
        Self { data: ScratchData::new().expect("a directory for the test can be made") }
    }

    /// Runs `warren` with these words. Returns what it wrote to standard output, without the final
    /// line break.
    #[track_caller]
    fn warren(&self, words: &[&str]) -> String {
        let output = self.output(words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {}\n{stderr}", output.status);
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn output(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warren"));
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.data.path());
        // The network of the machine that tests run on is none of theirs.
        command.env("WARREN_NETWORK__ENABLED", "false");
        command.arg("--data-dir").arg(self.data.path()).args(words).stdin(Stdio::null());
        command.output().expect("warren can be started")
    }

    /// Runs a shell script in a small sandbox.
    #[track_caller]
    fn sh(&self, script: &str) -> String {
        self.warren(&["run", "--memory", "256m", "--cpus", "1", "--", "sh", "-ec", script])
    }

    /// Runs a Python program in a small sandbox.
    #[track_caller]
    fn python(&self, program: &str) -> String {
        let program = format!("{PRELUDE}{program}");
        self.warren(&["run", "--memory", "256m", "--cpus", "1", "--", "python3", "-c", &program])
    }

    /// Makes a sandbox that stays, and returns its id and the agent's pid on the host.
    fn keep(&self, command: &[&str]) -> (String, u64) {
        self.warren(&[&["run", "--keep", "--"], command].concat());
        let list: serde_json::Value =
            serde_json::from_str(&self.warren(&["ls", "--json"])).expect("`ls --json` prints JSON");
        let id = list[0]["id"].as_str().expect("a sandbox has an id").to_owned();
        (id, list[0]["pid"].as_u64().expect("a living sandbox has a pid"))
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A sandbox that outlives its data directory could not be found again.
            let list = self.output(&["ls", "--json"]).stdout;
            let list: Vec<serde_json::Value> = serde_json::from_slice(&list).unwrap_or_default();
            for id in list.iter().filter_map(|sandbox| sandbox["id"].as_str()) {
                self.output(&["rm", id]);
            }
        } else {
            Census::assert_clean(self.data.path());
        }
    }
}

#[test]
fn each_start_has_a_boot_id_of_its_own() {
    const SHOW: [&str; 2] = ["cat", "/proc/sys/kernel/random/boot_id"];
    let env = TestEnv::new();
    let (id, _) = env.keep(&["true"]);
    let show = || env.warren(&[&["exec", &id, "--"], &SHOW[..]].concat());
    let first = show();
    assert_eq!(first.len(), 36, "{first}");
    assert_eq!(show(), first);
    let host = std::fs::read_to_string(SHOW[1]).expect("the host has one");
    let other = env.warren(&[&["run", "--"], &SHOW[..]].concat());
    assert!(first != other && first != host.trim() && other != host.trim());
    let written = env.output(&[
        "exec",
        &id,
        "--user",
        "root",
        "--",
        "sh",
        "-c",
        "echo x > /proc/sys/kernel/random/boot_id",
    ]);
    assert!(!written.status.success());
    assert_eq!(show(), first);
    env.warren(&["rm", &id]);
}

#[test]
fn sizes_are_those_of_the_limits() {
    let env = TestEnv::new();
    let script = "free -m | awk '/^Mem:/ { print $2 }'; nproc; nproc --all
        python3 -c 'import os; print(os.cpu_count())'; grep -c ^processor /proc/cpuinfo
        awk '/^cpu cores|^siblings/ { print $NF }' /proc/cpuinfo; grep -c ^cpu /proc/stat
        cat /sys/devices/system/cpu/online; getconf _NPROCESSORS_CONF; free | awk '/^Swap:/ { print $2 }'";
    let words: Vec<String> = env.sh(script).split_whitespace().map(str::to_owned).collect();
    assert_eq!(words, ["256", "1", "1", "1", "1", "1", "1", "2", "0", "1", "0"]);
}

#[test]
fn clocks_begin_with_the_sandbox() {
    let env = TestEnv::new();
    env.python(
        "
up, idle = map(float, open('/proc/uptime').read().split())
assert 0 < up < 30 and 0 <= idle <= up, (up, idle)
assert 0 <= time.clock_gettime(time.CLOCK_BOOTTIME) < 30
btime = int(next(line.split()[1] for line in open('/proc/stat') if line.startswith('btime ')))
assert abs(time.time() - btime) < 30, btime
ages = subprocess.check_output(['ps', '-eo', 'etimes='], text=True).split()
assert len(ages) >= 3 and all(int(age) < 30 for age in ages), ages
time.sleep(2.5)
# Figures are up to a second old.
assert 1.4 < float(open('/proc/uptime').read().split()[0]) < 60
",
    );
}

#[test]
fn used_memory_is_no_longer_available() {
    let env = TestEnv::new();
    env.python(
        "
assert meminfo('MemTotal') == 256 * 1024
before = meminfo('MemAvailable')
block = bytearray(os.urandom(1 << 20)) * 100
wait_for(lambda: meminfo('MemAvailable') < before - 95 * 1024)
assert meminfo('MemAvailable') > 100 * 1024 and meminfo('AnonPages') > 95 * 1024
del block
wait_for(lambda: meminfo('MemAvailable') > before - 40 * 1024)
",
    );
}

#[test]
fn work_shows_as_load_and_as_processor_time() {
    let env = TestEnv::new();
    env.python(
        "
first = open('/proc/loadavg').read().split()
assert len(first) == 5 and float(first[0]) < 0.1, first
def user():
    return int(open('/proc/stat').readline().split()[1])
busy = subprocess.Popen(['sh', '-c', 'while :; do :; done'])
wait_for(lambda: load() >= 0.05 and user() >= 200)
fields = open('/proc/loadavg').read().split()
running, total = map(int, fields[3].split('/'))
assert 1 <= running <= 3 <= total < 10 and int(fields[4]) >= busy.pid, fields
busy.kill(); busy.wait()
assert load() < 2
",
    );
}

#[test]
fn nobody_inside_can_change_the_figures() {
    let env = TestEnv::new();
    let program = "
import os, errno
for name in ('meminfo', 'cpuinfo', 'stat', 'uptime', 'loadavg', 'vmstat'):
    path = '/proc/' + name
    found = os.stat(path)
    assert (found.st_mode & 0o7777, found.st_uid) == (0o444, 0), (path, found)
    for change in (lambda: open(path, 'r+'), lambda: os.chmod(path, 0o666), lambda: os.truncate(path, 0), lambda: os.utime(path)):
        try:
            change()
        except OSError as failure:
            assert failure.errno == errno.EROFS, (path, failure)
        else:
            raise AssertionError(path)
try:
    os.mkdir('/sys/x')
except OSError as failure:
    assert failure.errno == errno.EROFS, failure
found = sorted(os.path.join(place, name) for place, _, names in os.walk('/sys') for name in names)
assert found == ['/sys/devices/system/cpu/' + name for name in ('online', 'possible', 'present')], found
";
    env.warren(&["run", "--user", "root", "--", "python3", "-c", program]);
}

#[test]
fn tools_that_read_the_figures_run() {
    let env = TestEnv::new();
    env.sh("for tool in 'top -b -n1' 'ps aux' uptime w 'vmstat 1 2' lscpu; do
            command -v ${tool%% *} > /dev/null || continue
            $tool > /tmp/out 2> /tmp/errors || { echo \"$tool\"; cat /tmp/errors; exit 1; }
            test ! -s /tmp/errors || { echo \"$tool\"; cat /tmp/errors; exit 1; }
        done");
}

#[test]
fn an_idle_sandbox_sleeps() {
    let env = TestEnv::new();
    let (id, pid) = env.keep(&["true"]);
    let switches = || {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the agent runs");
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).expect("the kernel counts")
    };
    // On a busy machine it takes a while to come to rest.
    let woken = || {
        let before = switches();
        std::thread::sleep(Duration::from_secs(3));
        switches() - before
    };
    let least = (0..10).map(|_| woken()).find(|woken| *woken <= 1);
    env.warren(&["rm", &id]);
    assert!(least.is_some(), "it is woken again and again with nothing to do");
}

#[test]
fn what_is_left_in_the_background_reads_fresh_figures() {
    let env = TestEnv::new();
    let script = "(for step in 1 2 3; do sleep 1; done; cat /proc/uptime > /tmp/uptime) > /dev/null 2>&1 &";
    let (id, _) = env.keep(&["sh", "-c", script]);
    let wait = "until test -s /tmp/uptime; do sleep 0.1; done; cat /tmp/uptime";
    let text = env.warren(&["exec", &id, "--timeout", "60s", "--", "sh", "-c", wait]);
    env.warren(&["rm", &id]);
    let up: f64 = text.split(' ').next().and_then(|word| word.parse().ok()).expect("an uptime");
    // Figures are up to a second old; those of the beginning would be three.
    assert!((1.9..60.0).contains(&up), "{text}");
}
