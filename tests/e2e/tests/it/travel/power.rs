//! The machine loses its power: what was said to be on the disk is there, and what is not is not
//! taken for it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use warren_e2e::{ServerSetup, TestEnv, TestServer};

use super::storage::Pool;
use super::support::{create, keep_busy, text};

const MIB: u64 = 1 << 20;
const LOAD: Duration = Duration::from_secs(8);
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A disk whose content can be had as it is at one moment: its image is on a file system that
/// shares data.
struct Plug {
    image: PathBuf,
    mount: PathBuf,
}

impl Plug {
    fn make(env: &TestEnv, pool: &Pool) -> Self {
        let (image, mount) = (pool.data().join("disk.img"), env.path("disk"));
        let sized = File::create(&image).and_then(|file| file.set_len(1500 * MIB));
        sized.and_then(|()| fs::create_dir(&mount)).expect("the disk is made");
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image), 0);
        let plug = Self { image, mount };
        plug.mount();
        plug
    }

    /// The file system writes nothing by itself for a long time: only what somebody asked for is on
    /// the disk.
    fn mount(&self) {
        run(Command::new("mount").args(["-o", "loop,commit=300"]).arg(&self.image).arg(&self.mount), 0);
    }

    /// The disk as a power cut would leave it now, under another name.
    fn copy(&self) -> PathBuf {
        let copy = self.image.with_extension("cut");
        run(Command::new("cp").arg("--reflink=always").arg(&self.image).arg(&copy), 0);
        copy
    }

    /// Puts another disk in its place.
    fn replace(&mut self, image: PathBuf) {
        run(Command::new("umount").arg(&self.mount), 0);
        // The journal is played back, which is no damage: 1.
        run(Command::new("e2fsck").arg("-y").arg(&image), 1);
        self.image = image;
        self.mount();
    }

    fn data(&self) -> PathBuf {
        self.mount.join("data")
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.mount).status());
    }
}

#[track_caller]
fn run(command: &mut Command, most: i32) {
    let output = command.output().expect("it can be started");
    let code = output.status.code();
    assert!(
        code.is_some_and(|code| code <= most),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A snapshot that was acknowledged.
#[derive(Debug, Clone)]
struct Promise {
    snapshot: String,
    durable: bool,
    /// The number in its file `round`; absent for that of a busy sandbox.
    round: Option<usize>,
}

#[test]
fn what_was_durable_before_a_power_cut_is_whole_after_it() {
    let env = TestEnv::new();
    let pool = Pool::make(&env, "outer", "6g");
    let mut disk = Plug::make(&env, &pool);
    let server = setup(&env, &disk).start();
    let ids = [(); 3].map(|()| create(&server, &[]));
    let (promises, cut) = put_under_load(&server, &ids, || disk.copy());
    let later = take(&server, &ids[0], false);
    let later = text(&server.ask("GET", &format!("/v1/snapshots/{later}"), None).json(), "created_at");
    server.finish();
    disk.replace(cut);
    let another_boot = env.path("boot_id");
    fs::write(&another_boot, "00000000-0000-4000-8000-000000000001\n").unwrap();
    let server = setup(&env, &disk).in_other_boot(&another_boot).start();
    // It has been read. A `/proc` with something in front of it could not be had in sandboxes.
    run(Command::new("nsenter").args(["-m", "-t", &server.pid().to_string(), "umount", BOOT_ID]), 0);

    // The state that a sandbox was found in is captured as well; whatever that is, it was not
    // promised.
    let rows: Vec<Value> =
        all_snapshots(&server).into_iter().filter(|row| text(row, "created_at") < later).collect();
    for promise in promises.iter().filter(|promise| promise.durable) {
        let row = rows.iter().find(|row| row["snapshot_id"] == promise.snapshot.as_str());
        let row = row.unwrap_or_else(|| panic!("{promise:?} is lost"));
        assert_eq!((&row["durable"], &row["damaged"]), (&json!(true), &json!(false)), "{row}");
    }
    let (mut whole, mut damaged) = (0, 0);
    for row in &rows {
        let snapshot = text(row, "snapshot_id");
        let promise = promises.iter().find(|promise| promise.snapshot == snapshot);
        if row["damaged"] == true {
            assert_eq!(row["durable"], false, "{row}");
            let refused = server.ask("POST", &format!("/v1/snapshots/{snapshot}/fork"), Some(&json!({})));
            assert_eq!((refused.status, refused.code().as_str()), (409, "snapshot_damaged"), "{row}");
            damaged += 1;
        } else {
            assert_eq!(row["durable"], true, "made in an earlier life of the machine: {row}");
            let busy = row["sandbox_id"] == ids[2].as_str();
            is_whole(&server, &snapshot, promise.and_then(|promise| promise.round), busy);
            whole += 1;
        }
    }
    assert!(whole > 3, "{whole} whole, {damaged} damaged");
    for id in &ids {
        assert_eq!(server.status(id), "stopped", "{id}");
        let resumed = server.ask("POST", &format!("/v1/sandboxes/{id}/resume"), None);
        if resumed.status != 200 {
            // It stood on layers that had not reached the disk. Its durable snapshots were all
            // there, above.
            let codes = ["snapshot_damaged", "start_failed"];
            assert!(codes.contains(&resumed.code().as_str()), "{id}: {} {}", resumed.status, resumed.code());
            continue;
        }
        assert_eq!(server.shell(id, "echo alive"), "alive");
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
    server.finish();
}

fn setup<'env>(env: &'env TestEnv, disk: &Plug) -> ServerSetup<'env> {
    let setup = TestServer::setup(env).data_dir(&disk.data());
    setup.set("disk.critical", "1MiB").set("disk.warn", "2MiB")
}

/// Writes and takes snapshots all the time, and cuts in the middle of that. Answers what had been
/// acknowledged by then.
fn put_under_load(
    server: &TestServer<'_>,
    ids: &[String; 3],
    cut: impl FnOnce() -> PathBuf,
) -> (Vec<Promise>, PathBuf) {
    let (promises, over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    keep_busy(server, &ids[2], "i=0; while :; do i=$((i+1)); echo $i > a; cp a b; sleep 0.01; done");
    std::thread::scope(|scope| {
        for id in ids {
            let (promises, over, busy) = (&promises, &over, *id == ids[2]);
            scope.spawn(move || {
                for round in 0.. {
                    if over.load(Ordering::SeqCst) {
                        return;
                    }
                    server.shell(id, &write(round));
                    // Some in between are only taken automatically.
                    let durable = round % 4 == 0;
                    if durable || round % 4 == 1 {
                        let snapshot = take(server, id, durable);
                        let round = (!busy).then_some(round);
                        promises.lock().expect("no writer failed").push(Promise { snapshot, durable, round });
                    }
                }
            });
        }
        std::thread::sleep(LOAD);
        let before = promises.lock().expect("no writer failed").clone();
        let image = cut();
        over.store(true, Ordering::SeqCst);
        assert!(before.iter().filter(|promise| promise.durable).count() > 3, "{before:?}");
        (before, image)
    })
}

/// One command that leaves a state which can be checked.
fn write(round: usize) -> String {
    format!(
        "mkdir -p data && head -c 300000 /dev/urandom > data/blob-$(({round} % 5)) && echo {round} > data/round && \
         rm -f data/gone-* && echo {round} > data/gone-{round} && sha256sum data/* > sums"
    )
}

#[track_caller]
fn take(server: &TestServer<'_>, id: &str, durable: bool) -> String {
    let taken =
        server.ask("POST", &format!("/v1/sandboxes/{id}/snapshots"), Some(&json!({"durable": durable})));
    assert_eq!(taken.status, 201, "{} {}", taken.code(), taken.json());
    if durable {
        assert_eq!(taken.json()["durable"], true, "{}", taken.json());
    }
    text(&taken.json(), "snapshot_id")
}

/// Its files are those of one moment, and every byte of them is right.
#[track_caller]
fn is_whole(server: &TestServer<'_>, snapshot: &str, round: Option<usize>, busy: bool) {
    let copy = server.warren(["fork", snapshot]).ok().line();
    let found = server.shell(
        &copy,
        "if test -e sums; then sha256sum --quiet -c sums && cat data/round; else echo none; fi",
    );
    if let Some(round) = round {
        assert_eq!(found, round.to_string(), "{snapshot}");
    }
    if !busy && found != "none" {
        assert_eq!(server.shell(&copy, "ls data | wc -l; cat data/gone-*").lines().last(), Some(&*found));
    }
    server.warren(["rm", &copy]).ok();
}

fn all_snapshots(server: &TestServer<'_>) -> Vec<Value> {
    let listed = server.warren(["snapshots", "--json"]).ok().json();
    listed.as_array().expect("a list").clone()
}
