use parking_lot::Mutex as StdMutex;
use warren_core::{NetworkObserver, Owner};

use super::*;

#[derive(Default)]
struct Heard(StdMutex<Vec<NetworkEntry>>);

impl NetworkObserver for Heard {
    fn saw(&self, _: &SandboxId, entry: NetworkEntry) {
        self.0.lock().push(entry);
    }
}

fn incident(host: &str) -> Incident {
    let verdict = NetworkVerdict::Denied;
    Incident {
        verdict,
        protocol: Protocol::Tcp,
        host: Some(host.to_owned()),
        address: None,
        port: 443,
        rule: "not in the allow list".to_owned(),
    }
}

struct Stage {
    reporter: Arc<Reporter>,
    guest: Arc<Guest>,
    heard: Arc<Heard>,
}

fn stage() -> Stage {
    let (book, heard) = (Arc::new(Book::new(Vec::new())), Arc::new(Heard::default()));
    book.observe(Arc::clone(&heard) as Arc<dyn NetworkObserver>);
    let id = "sbxh7777777777777777777777777".parse().unwrap();
    let guest = book.enter(Guest::new(id, Owner::first(), Vec::new(), &[]));
    Stage { reporter: Arc::new(Reporter::new(book)), guest, heard }
}

impl Stage {
    async fn saw(&self, incident: Incident) {
        if let Some(search) = self.reporter.saw(&self.guest, incident, "192.0.2.9:1".parse().unwrap()) {
            search.await.unwrap();
        }
    }

    fn told(&self) -> Vec<(Option<String>, u32)> {
        self.heard.0.lock().iter().map(|entry| (entry.host.clone(), entry.count)).collect()
    }
}

#[tokio::test]
async fn those_that_are_alike_within_a_second_are_one() {
    let stage = stage();
    for _ in 0..5 {
        stage.saw(incident("a.com")).await;
    }
    stage.saw(incident("b.com")).await;
    let host = |name: &str| Some(name.to_owned());
    assert_eq!(stage.told(), [(host("a.com"), 1), (host("b.com"), 1)], "the first of each at once");
    let later = Instant::now() + WINDOW;
    stage.reporter.tick(later);
    assert_eq!(stage.told()[2..], [(host("a.com"), 4)], "the others together");
    assert_eq!(stage.guest.figures.denied.load(std::sync::atomic::Ordering::Relaxed), 6);
    stage.reporter.tick(later + WINDOW);
    assert_eq!(stage.told().len(), 3, "and nothing twice");
    assert!(stage.reporter.windows.lock().is_empty(), "nothing is kept of those who are quiet");
}

#[tokio::test]
async fn very_many_different_ones_are_told_as_one() {
    let stage = stage();
    for number in 0..5000 {
        stage.saw(incident(&format!("h{number}.com"))).await;
    }
    assert!(stage.reporter.windows.lock().values().all(|own| own.open.len() <= MOST_KINDS + 1));
    stage.reporter.tick(Instant::now() + WINDOW);
    let told = stage.told();
    assert!(told.len() <= MOST_KINDS + 1, "{}", told.len());
    assert_eq!(told.iter().map(|(_, count)| count).sum::<u32>(), 5000, "none is forgotten");
}
