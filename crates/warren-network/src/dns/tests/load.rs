//! The cost of questions and answers.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use hickory_proto::rr::RecordType;
use tokio::net::UdpSocket;
use warren_core::network::{NetworkMode, NetworkPolicy};

use super::support::*;
use crate::dns::serve;

const ALONE: &str = "WARREN_TEST_ALONE";

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// In a process of its own: what other tests take is none of its growth.
#[test]
fn ten_thousand_questions_leave_nothing_behind() {
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        return runtime.unwrap().block_on(ask_ten_thousand());
    }
    let name = "dns::tests::load::ten_thousand_questions_leave_nothing_behind";
    let own = std::env::current_exe().unwrap();
    let ended = Command::new(own).args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    for line in said.lines().filter(|line| line.contains("KiB")) {
        println!("{line}");
    }
}

async fn ask_ten_thousand() {
    let world = World::new(policy(NetworkMode::Allow, &["*.a.example"], &[]), |request, _| {
        let text = format!("{} 60 A 192.0.2.1", request.queries[0].name);
        vec![answered(request, &[record(&text)]).to_vec().unwrap()]
    })
    .await;
    let round = async |from: u32, count: u32| {
        let world = &world;
        let questions = stream::iter(from..from + count).map(|number| async move {
            let below = if number % 4 == 0 { "b" } else { "a" };
            world.ask(&format!("h{number}.{below}.example"), RecordType::A).await
        });
        questions
            .buffer_unordered(32)
            .for_each(|answer| async move { assert_eq!(answer.answers.len(), 1) })
            .await;
    };
    round(0, 10_000).await;
    let before = resident_kib();
    round(10_000, 10_000).await;
    let growth = resident_kib().saturating_sub(before);
    println!("10000 questions: {growth} KiB more, of {before}");
    assert!(growth < 1024, "{growth} KiB");
}

/// Printed for information; the benchmark measures what it must reach.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proxy_adds_little_to_a_question() {
    const ROUNDS: usize = 300;
    let world = World::new(NetworkPolicy::public(), always(records(&["a.example 60 A 192.0.2.1"]))).await;
    let packets = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let streams = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = packets.local_addr().unwrap();
    let serving = tokio::spawn(serve(packets, streams, Arc::clone(&world.names)));
    let asked = question("a.example", RecordType::A).to_vec().unwrap();
    let time = async |to| {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(to).await.unwrap();
        let mut took = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let (start, mut buffer) = (Instant::now(), [0; 4096]);
            socket.send(&asked).await.unwrap();
            socket.recv(&mut buffer).await.unwrap();
            took.push(start.elapsed());
        }
        took.sort_unstable();
        took[ROUNDS / 2]
    };
    let (direct, proxied) = (time(world.fake.address).await, time(proxy).await);
    println!("a question: {direct:?} direct, {proxied:?} through the proxy (medians)");
    assert!(proxied < direct + Duration::from_millis(200), "{direct:?}, then {proxied:?}");
    serving.abort();
}
