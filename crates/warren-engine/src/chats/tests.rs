use std::fs::create_dir_all;
use std::os::unix::fs::symlink;

use warren_core::IsolationErrorKind;
use warren_testkit::{Call, ScratchData, Standing};

use super::*;
use crate::Settings;
use crate::sessions::tests::{Bench, eventually, owner, stranger};

const CHAT: &str = "0b5ac4d6-6a0f-4d0e-9a54-5a3b1de2a001";
const OTHER: &str = "0b5ac4d6-6a0f-4d0e-9a54-5a3b1de2a002";

struct Chats {
    bench: Bench,
    scratch: ScratchData,
}

impl Chats {
    async fn new() -> Self {
        let scratch = ScratchData::new().unwrap();
        create_dir_all(scratch.path().join("one")).unwrap();
        create_dir_all(scratch.path().join("two")).unwrap();
        symlink(scratch.path().join("one"), scratch.path().join("link")).unwrap();
        let settings = Settings {
            chat_env: BTreeMap::from([("MODEL".to_owned(), "small".to_owned())]),
            ..Settings::default()
        };
        let bench = Bench::with(settings).await;
        bench.backend.allow_mounts(vec![scratch.path().to_owned()]);
        Self { bench, scratch }
    }

    fn request(&self, chat: &str, agent: &str, volume: &str) -> ChatRequest {
        ChatRequest {
            chat: chat.to_owned(),
            agent: agent.to_owned(),
            volume: self.scratch.path().join(volume),
        }
    }

    async fn ask(&self, chat: &str, agent: &str, volume: &str) -> Result<ChatSandbox, ChatError> {
        self.bench.engine.of(&owner()).chats().serve(self.request(chat, agent, volume)).await
    }
}

#[tokio::test]
async fn a_chats_sandbox_has_its_volume_its_agent_and_a_short_life() {
    let chats = Chats::new().await;
    let chat = chats.ask(CHAT, "agent", "link").await.unwrap();
    assert_eq!(chat.volume, chats.scratch.path().canonicalize().unwrap().join("one"));
    assert_eq!((chat.port, chat.status), (8000, Status::Ready));
    let sandbox = chats.bench.engine.of(&owner()).sandbox(&chat.sandbox).record().await.unwrap();
    let expected =
        Mount { source: chat.volume.clone(), target: "/workspace".into(), access: MountAccess::ReadWrite };
    assert_eq!(sandbox.spec.mounts, [expected]);
    assert_eq!(sandbox.spec.env["AGENT_ID"], "agent");
    assert_eq!(sandbox.spec.env["MODEL"], "small");
    assert_eq!(sandbox.spec.limits.lifetime_s, 300);
    assert_eq!(sandbox.deadline.unix_ms, chat.expires_unix_ms);
}

#[tokio::test]
async fn the_same_request_gets_the_same_sandbox_and_another_one_a_conflict() {
    let chats = Chats::new().await;
    let first = chats.ask(CHAT, "agent", "one").await.unwrap();
    chats.bench.clock.advance_s(299);
    assert_eq!(chats.ask(CHAT, "agent", "link").await.unwrap(), first);
    assert!(matches!(chats.ask(CHAT, "else", "one").await, Err(ChatError::Conflict)));
    assert!(matches!(chats.ask(CHAT, "agent", "two").await, Err(ChatError::Conflict)));
    assert_ne!(chats.ask(OTHER, "agent", "one").await.unwrap().sandbox, first.sandbox);
    let foreign = chats.bench.engine.of(&stranger()).chats().serve(chats.request(CHAT, "else", "two")).await;
    assert_ne!(foreign.unwrap().sandbox, first.sandbox);
}

#[tokio::test]
async fn an_expired_sandbox_is_replaced_whoever_asks() {
    let chats = Chats::new().await;
    let first = chats.ask(CHAT, "agent", "one").await.unwrap();
    chats.bench.clock.advance_s(300);
    let second = chats.ask(CHAT, "else", "two").await.unwrap();
    assert_ne!(second.sandbox, first.sandbox);
    assert_eq!(chats.bench.backend.standing(&first.sandbox), None);
    assert_eq!(chats.bench.backend.standing(&second.sandbox), Some(Standing::Running));
}

#[tokio::test]
async fn a_sandbox_that_died_is_replaced() {
    let chats = Chats::new().await;
    let first = chats.ask(CHAT, "agent", "one").await.unwrap();
    chats.bench.backend.die(&first.sandbox, false);
    eventually(async || {
        let sandbox = chats.bench.engine.of(&owner()).sandbox(&first.sandbox).record().await.unwrap();
        !sandbox.is_live()
    })
    .await;
    let second = chats.ask(CHAT, "agent", "one").await.unwrap();
    assert_ne!(second.sandbox, first.sandbox);
}

#[tokio::test]
async fn a_paused_sandbox_is_awake_when_it_is_asked_for() {
    let chats = Chats::new().await;
    let first = chats.ask(CHAT, "agent", "one").await.unwrap();
    chats.bench.engine.of(&owner()).sandbox(&first.sandbox).pause().await.unwrap();
    assert_eq!(chats.ask(CHAT, "agent", "one").await.unwrap(), first);
    assert_eq!(chats.bench.backend.standing(&first.sandbox), Some(Standing::Running));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_who_ask_for_one_chat_at_once_get_one_sandbox() {
    let chats = Chats::new().await;
    let calls: Vec<_> = (0..16)
        .map(|_| {
            let (engine, request) = (chats.bench.engine.clone(), chats.request(CHAT, "agent", "one"));
            tokio::spawn(async move { engine.of(&owner()).chats().serve(request).await.unwrap().sandbox })
        })
        .collect();
    let mut made = std::collections::BTreeSet::new();
    for call in calls {
        made.insert(call.await.unwrap());
    }
    assert_eq!(made.len(), 1);
    assert_eq!(chats.bench.backend.calls(Call::Create), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_caller_went_away_is_finished_and_found_again() {
    let chats = Chats::new().await;
    let hold = chats.bench.backend.hold(Call::Create);
    let patience = std::time::Duration::from_millis(100);
    assert!(tokio::time::timeout(patience, chats.ask(CHAT, "agent", "one")).await.is_err());
    drop(hold);
    chats.ask(CHAT, "agent", "one").await.unwrap();
    assert_eq!(chats.bench.backend.calls(Call::Create), 1);
}

#[tokio::test]
async fn a_failed_start_leaves_nothing_and_can_be_tried_again() {
    let chats = Chats::new().await;
    chats.bench.backend.fail_next(Call::Create, IsolationErrorKind::Host);
    let failed = chats.ask(CHAT, "agent", "one").await;
    assert!(matches!(failed, Err(ChatError::StartFailed(_))), "{failed:?}");
    assert_eq!(chats.bench.backend.standings().len(), 0);
    chats.ask(CHAT, "other", "two").await.unwrap();
}

#[tokio::test]
async fn a_chat_ends_once() {
    let chats = Chats::new().await;
    let engine = &chats.bench.engine;
    assert_eq!(engine.of(&owner()).chats().end(CHAT).await.unwrap(), None);
    let chat = chats.ask(CHAT, "agent", "one").await.unwrap();
    assert_eq!(engine.of(&stranger()).chats().end(CHAT).await.unwrap(), None);
    let ended = engine.of(&owner()).chats().end(CHAT).await.unwrap();
    assert_eq!(ended, Some(ChatEnded { session: chat.session, sandbox: chat.sandbox.clone() }));
    assert_eq!(chats.bench.backend.standing(&chat.sandbox), None);
    assert_eq!(engine.of(&owner()).chats().end(CHAT).await.unwrap(), None);
}

#[tokio::test]
async fn bad_requests_are_told_apart() {
    let chats = Chats::new().await;
    for (chat, agent) in [("no-uuid", "agent"), (CHAT, ""), (CHAT, " "), (CHAT, "a\nb")] {
        let refused = chats.ask(chat, agent, "one").await;
        assert!(matches!(refused, Err(ChatError::Engine(EngineError::Invalid { .. }))), "{refused:?}");
    }
    let outside = ChatRequest { volume: "/etc".into(), ..chats.request(CHAT, "agent", "one") };
    let refused = chats.bench.engine.of(&owner()).chats().serve(outside).await;
    assert!(matches!(refused, Err(ChatError::VolumeNotAllowed)), "{refused:?}");
    assert_eq!(chats.bench.backend.calls(Call::Create), 0);
}
