//! Heavy work in one owner's name, and what others notice of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use warren_e2e::{Answer, TestEnv, TestServer, resident_bytes};

const DIFFS: usize = 100;
const OTHERS: usize = 10;
/// How often the other owner's calls are timed.
const SAMPLES: usize = 25;
const MOST_RESIDENT: u64 = 300 << 20;
/// The time that a busy machine may add to a call.
const SLACK: Duration = Duration::from_millis(150);

/// Files that take long to compare: the same lines in another order. Beside them two that are too
/// large.
const WRITE: &str = "mkdir -p /var/tmp/w && cd /var/tmp/w && \
    for i in $(seq 40); do seq 90000 | shuf > f$i; done && \
    yes 'a long line of text that repeats itself' | head -c 20000000 > large && \
    mkdir -p many && cd many && seq -f 'a-file-with-a-name-that-is-not-short-%g' 20000 | xargs touch";

#[test]
fn a_hundred_diffs_of_one_owner_are_hardly_noticed_by_another() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let mine = server.create();
    let key = server.warren(["keys", "create", "neighbour", "--owner", "neighbour"]).ok().line();
    let bearer = format!("Bearer {key}");
    let made = server.ask_with("POST", "/v1/sandboxes", &[("authorization", &bearer)], Some(&json!({})));
    assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
    let theirs = made.json()["sandbox_id"].as_str().expect("an id").to_owned();
    let states = [0, 1].map(|_| {
        server.shell(&mine, WRITE);
        let taken = server.warren(["snapshot", &mine, "--json"]).ok().json();
        taken["snapshot_id"].as_str().expect("an id").to_owned()
    });
    let exec = || {
        let line = json!({ "command": ["true"] });
        let path = format!("/v1/sandboxes/{theirs}/exec");
        let answer = server.ask_with("POST", &path, &[("authorization", &bearer)], Some(&line));
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    };
    let health = || assert_eq!(server.ask("GET", "/v1/health", None).status, 200);
    let idle = (median(health), median(exec));

    let attack = Attack::new(&server, &mine, &states);
    let (busy, most) = std::thread::scope(|scope| {
        let _ends = End(&attack.over);
        attack.begin(scope);
        let measured = (median(health), median(exec));
        (measured, attack.most_resident.load(Ordering::Relaxed))
    });
    let (done, refused) = attack.answers();
    eprintln!(
        "idle {idle:?}, under attack {busy:?}, at most {} MiB, {done} done, {refused} refused",
        most >> 20
    );
    assert!(done > 0, "work is done");
    assert!(refused > 0, "and what is too much is refused");
    assert!(most < MOST_RESIDENT, "the server took {} MiB", most >> 20);
    assert!(busy.0 <= 3 * idle.0 + SLACK, "health took {:?} instead of {:?}", busy.0, idle.0);
    assert!(busy.1 <= 3 * idle.1 + SLACK, "a command took {:?} instead of {:?}", busy.1, idle.1);
    let removed =
        server.ask_with("DELETE", &format!("/v1/sandboxes/{theirs}"), &[("authorization", &bearer)], None);
    assert!(removed.status < 300, "{}", String::from_utf8_lossy(&removed.body));
    server.finish();
}

fn median(call: impl Fn()) -> Duration {
    let mut times: Vec<Duration> = (0..SAMPLES)
        .map(|_| {
            let begun = Instant::now();
            call();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[SAMPLES / 2]
}

/// Ends the attack also when the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One owner who asks for as much as a hundred connections can.
struct Attack<'a> {
    server: &'a TestServer<'a>,
    paths: Vec<String>,
    over: AtomicBool,
    done: AtomicU64,
    refused: AtomicU64,
    most_resident: AtomicU64,
}

impl<'a> Attack<'a> {
    fn new(server: &'a TestServer<'a>, id: &str, [one, other]: &[String; 2]) -> Self {
        let diff = format!("/v1/diff?from={one}&to={other}&text=true&path=/var/tmp/w");
        let patch = format!("/v1/snapshots/{other}/export?format=patch&since={one}&path=/var/tmp/w");
        let list = format!("/v1/sandboxes/{id}/files/list?path=/usr&depth=16&limit=10000");
        let grep = format!("/v1/sandboxes/{id}/files/grep?root=/var/tmp/w&pattern=1&limit=10000");
        let mut paths = vec![diff; DIFFS];
        [patch, list, grep].into_iter().for_each(|path| paths.extend(vec![path; OTHERS]));
        let number = || AtomicU64::new(0);
        let (done, refused, most_resident) = (number(), number(), number());
        Self { server, paths, over: AtomicBool::new(false), done, refused, most_resident }
    }

    fn begin<'s>(&'s self, scope: &'s std::thread::Scope<'s, '_>) {
        for path in &self.paths {
            scope.spawn(move || self.repeat(path));
        }
        scope.spawn(move || {
            while !self.is_over() {
                self.most_resident.fetch_max(resident_bytes(self.server.pid()), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
    }

    fn repeat(&self, path: &str) {
        while !self.is_over() {
            match self.server.ask("GET", path, None) {
                Answer { status: 200, .. } => drop(self.done.fetch_add(1, Ordering::Relaxed)),
                answer => {
                    assert_eq!((answer.status, answer.code().as_str()), (429, "max_heavy_work"));
                    assert!(answer.head.contains("\nretry-after: "), "{}", answer.head);
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(500));
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn answers(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }
}
