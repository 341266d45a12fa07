//! Snapshots on every kind of disk: the same story with each driver, and the pools that some need.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use warren_e2e::{Disk, Output, ServerSetup, TestEnv, TestServer, eventually};

use super::support::{create, fork, keep_busy, take, text};

const PATIENCE: Duration = Duration::from_secs(60);

/// A data directory on a btrfs of its own. Not the test's usual one, which is looked at when no
/// disk is mounted any more.
pub(super) struct Pool {
    data: PathBuf,
}

impl Pool {
    #[track_caller]
    pub(super) fn make(env: &TestEnv, name: &str, size: &str) -> Self {
        let data = env.path(name);
        storage(env, &data, &["create", "--size", size]).ok();
        Self { data }
    }

    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    fn file(&self) -> PathBuf {
        let mut name = self.data.clone().into_os_string();
        name.push(".pool");
        name.into()
    }

    fn is_mounted(&self) -> bool {
        self.mounts() > 0
    }

    fn mounts(&self) -> usize {
        let place = format!(" {} ", self.data.display());
        let table = fs::read_to_string("/proc/self/mountinfo").expect("mounts are listed");
        table.lines().filter(|line| line.contains(&place)).count()
    }

    #[track_caller]
    fn unmount(&self) {
        let output = Command::new("umount").arg(&self.data).output().expect("it can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The paths of all subvolumes.
    fn subvolumes(&self) -> Vec<String> {
        let output = Command::new("btrfs")
            .args(["subvolume", "list"])
            .arg(&self.data)
            .output()
            .expect("it can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().filter_map(|line| Some(line.split_once(" path ")?.1.to_owned())).collect()
    }

    /// Insists that nothing of it is left on the machine once it is unmounted.
    #[track_caller]
    fn finish(self) {
        eventually(PATIENCE, "no subvolume is left", || self.subvolumes().is_empty());
        self.unmount();
        assert!(!self.is_mounted());
        eventually(PATIENCE, "no loop device is left", || loops_of(&self.file()) == 0);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.is_mounted() {
            drop(Command::new("umount").arg("--lazy").arg(&self.data).status());
        }
    }
}

fn loops_of(file: &Path) -> usize {
    let devices = fs::read_dir("/sys/block").expect("devices are listed").flatten();
    let files = devices.filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok());
    files.filter(|backing| Path::new(backing.trim_end()) == file).count()
}

fn storage(env: &TestEnv, data: &Path, words: &[&str]) -> Output {
    let output = env.command_on(data, ["storage"]).args(words).output();
    output.expect("warren can be started").into()
}

/// How states are captured with a driver.
struct Methods {
    idle: &'static str,
    busy: &'static str,
}

const SHARED: Methods = Methods { idle: "cloned", busy: "cloned" };

#[test]
fn the_overlay_driver_tells_the_whole_story_on_any_disk() {
    let env = TestEnv::new();
    let disk = Disk::make(&env, 1000);
    let setup = TestServer::setup(&env).data_dir(&disk.mount().join("data"));
    let server = with_driver(setup, "overlay").start();
    tell(&server, &Methods { idle: "sealed", busy: "copied" });
    no_layer_is_left(&disk.mount().join("data"));
    server.finish();
}

#[test]
fn the_reflink_driver_tells_the_same_story() {
    let env = TestEnv::new();
    let pool = Pool::make(&env, "pooled", "2g");
    let server = with_driver(TestServer::setup(&env).data_dir(pool.data()), "reflink").start();
    let id = tell(&server, &SHARED);
    assert!(pool.subvolumes().is_empty(), "{id} needs none");
    no_layer_is_left(pool.data());
    server.finish();
    pool.finish();
}

#[test]
fn the_btrfs_driver_tells_the_same_story_with_subvolumes() {
    let env = TestEnv::new();
    let pool = Pool::make(&env, "pooled", "2g");
    let server = with_driver(TestServer::setup(&env).data_dir(pool.data()), "btrfs").start();
    let id = create(&server, &["--history", "off"]);
    server.shell(&id, "echo one > file");
    take(&server, &id, &[]);
    let found = pool.subvolumes();
    assert!(found.contains(&format!("sandboxes/{id}")), "{found:?}");
    assert!(found.iter().any(|path| path.starts_with("layers/layer-")), "{found:?}");
    server.warren(["rm", &id]).ok();
    tell(&server, &SHARED);
    no_layer_is_left(pool.data());
    server.finish();
    pool.finish();
}

fn with_driver<'env>(setup: ServerSetup<'env>, driver: &str) -> ServerSetup<'env> {
    let setup = setup.set("disk.critical", "1MiB").set("disk.warn", "2MiB");
    setup.set("snapshots.driver", driver).set("timeouts.sweep", "1s")
}

/// Writes, captures, goes back, forks, compares and removes. Answers the id of the sandbox that
/// was.
#[track_caller]
fn tell(server: &TestServer<'_>, methods: &Methods) -> String {
    const SUM: &str = "cat file big d/* | sha256sum";
    let id = create(server, &["--history", "off"]);
    server.shell(&id, "mkdir d; for n in 1 2 3 4 5 6 7 8 9; do echo $n > d/$n; done; echo one > file");
    server.shell(&id, "head -c 8M /dev/urandom > big; ln big other; ln -s file link");
    let first = server.shell(&id, SUM);
    let idle = take(server, &id, &["--name", "idle"]);
    assert_eq!(idle["method"], methods.idle, "{idle}");
    // In the middle of a file that the snapshot has too.
    server.shell(&id, "printf changed | dd of=big bs=1 seek=4000000 conv=notrunc status=none");
    server.shell(&id, "echo two > file; rm d/3; mv d/4 moved");
    let second = server.shell(&id, SUM);
    assert_ne!(first, second);
    keep_busy(server, &id, "while :; do date +%N > tick; sleep 0.02; done");
    let busy = take(server, &id, &["--name", "busy"]);
    assert_eq!(busy["method"], methods.busy, "{busy}");

    server.warren(["rollback", &id, "idle"]).ok();
    assert_eq!(server.shell(&id, SUM), first);
    assert_eq!(server.shell(&id, "cat link; ls d | wc -l; test ! -e moved; stat -c %h big"), "one\n9\n2");
    assert_eq!(server.shell(&fork(server, &format!("{id}:busy")), SUM), second);

    let forks = server.warren(["fork", &id, "-n", "3", "--json"]).ok().json();
    let forks: Vec<String> =
        forks["sandboxes"].as_array().expect("a list").iter().map(|one| text(one, "sandbox_id")).collect();
    assert_eq!(forks.len(), 3);
    for (number, fork) in forks.iter().enumerate() {
        server.shell(fork, &format!("printf {number} | dd of=big bs=1 seek=9 conv=notrunc status=none"));
    }
    let sums: Vec<String> = forks.iter().map(|fork| server.shell(fork, SUM)).collect();
    assert!(sums[0] != sums[1] && sums[1] != sums[2] && sums[0] != sums[2], "{sums:?}");
    assert_eq!(server.shell(&id, SUM), first, "what forks write stays theirs");
    assert_eq!(server.shell(&fork(server, &format!("{id}:idle")), SUM), first);

    let (from, to) = (text(&idle, "snapshot_id"), text(&busy, "snapshot_id"));
    let diff = server.ask("GET", &format!("/v1/diff?from={from}&to={to}&path=/home"), None);
    let items = diff.json()["items"].as_array().expect("a list").clone();
    let kind = |name: &str| {
        let found = items.iter().find(|item| item["path"].as_str().is_some_and(|path| path.ends_with(name)));
        found.map_or(json!(null), |item| item["kind"].clone())
    };
    let kinds = ["/big", "/file", "/d/3", "/moved", "/d/1"].map(kind);
    assert_eq!(kinds, [json!("changed"), json!("changed"), json!("removed"), json!("added"), json!(null)]);

    let all = server.warren(["ls", "-q"]).ok().text();
    all.lines().for_each(|id| drop(server.warren(["rm", id]).ok()));
    for name in ["idle", "busy"] {
        server.warren(["snapshots", "rm", &format!("{id}:{name}")]).ok();
    }
    id
}

#[track_caller]
fn no_layer_is_left(data: &Path) {
    let left = || {
        let entries = fs::read_dir(data.join("layers")).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).count()
    };
    eventually(PATIENCE, "no layer is left", || left() == 0);
}

#[test]
fn a_pool_is_made_once_and_for_an_empty_directory_alone() {
    let env = TestEnv::new();
    let full = env.path("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("precious"), "").unwrap();
    storage(&env, &full, &["create", "--size", "1g"]).ended(125).says("which is not Warren's");
    assert!(!env.path("full.pool").exists());
    storage(&env, &env.path("tiny"), &["create", "--size", "1m"]).ended(125).says("too small");
    storage(&env, &env.path("absent"), &["mount"]).ended(125).says("warren storage create");
    let pool = Pool::make(&env, "pooled", "1g");
    storage(&env, pool.data(), &["create", "--size", "1g"]).ended(125).says("exists already");
    let status = storage(&env, pool.data(), &["status", "--json"]).ok().json();
    assert_eq!(
        (&status["file_system"], &status["drivers"], &status["pool"]["mounted"]),
        (&json!("btrfs"), &json!(["overlay", "reflink", "btrfs"]), &json!(true)),
        "{status}"
    );
    let checks = Output::from(env.command_on(pool.data(), ["doctor", "--json"]).output().unwrap()).json();
    let check = checks.as_array().unwrap().iter().find(|check| check["name"] == "snapshots").unwrap();
    assert!(check["status"] == "ok" && check["found"].as_str().unwrap().contains("btrfs"), "{check}");
    pool.finish();
}

#[test]
fn a_driver_that_the_disk_cannot_serve_is_refused_at_the_start() {
    let env = TestEnv::new();
    let disk = Disk::make(&env, 300);
    let data = disk.mount().join("data");
    for (driver, why) in [("btrfs", "is not on btrfs"), ("reflink", "cannot share data")] {
        let refused = with_driver(TestServer::setup(&env).data_dir(&data), driver).refused().ended(125);
        refused.says(why).says("snapshots.driver").says("warren storage create");
    }
    with_driver(TestServer::setup(&env).data_dir(&data), "overlay").start().finish();
}

/// As after a restart of the machine. The file of settings is in the pool as well.
#[test]
fn a_pool_is_mounted_by_whoever_needs_it() {
    let env = TestEnv::new();
    let pool = Pool::make(&env, "pooled", "1g");
    let settings = "snapshots: {driver: btrfs}\ndisk: {warn: 2MiB, critical: 1MiB}\n";
    fs::write(pool.data().join("warren.yaml"), settings).unwrap();
    pool.unmount();
    let server = TestServer::setup(&env).data_dir(pool.data()).start();
    let id = server.create();
    assert!(pool.subvolumes().contains(&format!("sandboxes/{id}")), "{:?}", pool.subvolumes());
    server.finish();
    pool.unmount();
    let run = |word: &str| {
        let mut run = env.command_on(pool.data(), ["run", "--", "echo", word]);
        std::thread::spawn(move || Output::from(run.output().expect("warren can be started")))
    };
    for (running, word) in ["a", "b", "c"].map(|word| (run(word), word)) {
        assert_eq!(running.join().expect("it ends").ok().line(), word);
    }
    assert_eq!(pool.mounts(), 1);
    storage(&env, pool.data(), &["mount"]).ok();
    assert_eq!(pool.mounts(), 1);
    // What is removed may take a moment.
    eventually(PATIENCE, "it can be unmounted", || {
        Command::new("umount").arg(pool.data()).output().is_ok_and(|output| output.status.success())
    });
    fs::write(pool.data().join("precious"), "").unwrap();
    storage(&env, pool.data(), &["mount"]).ended(125).says("which is not Warren's");
    TestServer::setup(&env).data_dir(pool.data()).refused().ended(125).says("which is not Warren's");
}
