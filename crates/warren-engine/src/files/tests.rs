use bytes::Bytes;
use futures_util::FutureExt;
use warren_wire::guest::{
    CHUNK, EntryKind, Failure, FailureCode, FileCall, FileEntry, FileOperation, FrameKind, GrepMatch,
    GrepQuery, Reply, Request, WatchEvent, WatchKind,
};

use crate::EngineError;
use crate::guest::fake::FakeGate;

fn call(operation: FileOperation) -> FileCall {
    FileCall { user: None, operation, as_root: None }
}

fn read() -> FileCall {
    call(FileOperation::Read { path: "/a".into(), offset: 0, length: None })
}

fn write() -> FileCall {
    let (path, permissions) = ("/a".into(), None);
    call(FileOperation::Write { path, mode: Default::default(), permissions, parents: false })
}

fn grep(limit: u32) -> FileCall {
    let (pattern, files) = ("x".to_owned(), None);
    call(FileOperation::Grep(GrepQuery { root: "/".into(), pattern, ignore_case: false, files, limit }))
}

fn entry(path: &str) -> FileEntry {
    FileEntry {
        path: path.into(),
        kind: EntryKind::File,
        size: 6,
        permissions: 0o644,
        uid: 0,
        gid: 0,
        modified_ns: 0,
        target: None,
        owner: None,
        group: None,
        inode: 1,
        links: 1,
        resolved: None,
        attributes: None,
    }
}

fn full() -> Reply {
    Reply::Failed(Failure::of_kernel(FailureCode::Exhausted, "the disk is full", 28))
}

#[tokio::test]
async fn a_file_is_read_in_the_pieces_it_comes_in() {
    let gate = FakeGate::default().serve(|mut end| async move {
        assert_eq!(end.request().await, Request::File(read()));
        end.reply(&Reply::Entry(entry("/a"))).await;
        end.send(FrameKind::Data, b"abc").await;
        end.send(FrameKind::Data, b"def").await;
        end.send(FrameKind::End, &[]).await;
    });
    let mut file = gate.guest().read(read()).await.unwrap();
    assert_eq!(file.entry, entry("/a"));
    assert_eq!(file.next().await.unwrap().unwrap(), "abc");
    assert_eq!(file.next().await.unwrap().unwrap(), "def");
    assert_eq!(file.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_file_cut_short_is_no_end() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&Reply::Entry(entry("/a"))).await;
        end.send(FrameKind::Data, b"abc").await;
    });
    let mut file = gate.guest().read(read()).await.unwrap();
    file.next().await.unwrap();
    assert!(matches!(file.next().await, Err(EngineError::SandboxEnded { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_stops_in_the_middle_of_a_file_is_left_behind() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&Reply::Entry(entry("/a"))).await;
        end.linger().await;
    });
    let mut file = gate.guest().read(read()).await.unwrap();
    assert!(matches!(file.next().await, Err(EngineError::TimedOut { .. })));
}

#[tokio::test]
async fn a_written_file_is_confirmed() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&Reply::Done).await;
        let mut bytes = 0;
        while let Some(frame) = end.receive().await.filter(|frame| frame.kind == FrameKind::Data) {
            bytes += frame.payload.len() as u64;
        }
        end.reply(&Reply::Written { bytes }).await;
    });
    let mut file = gate.guest().write(write()).await.unwrap();
    file.write(Bytes::from(vec![0; 3 * CHUNK + 1])).await.unwrap();
    file.write(Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(file.finish().await.unwrap(), 3 * CHUNK as u64 + 2);
}

#[tokio::test]
async fn a_dropped_writer_says_nothing_of_an_end() {
    let (told, heard) = tokio::sync::oneshot::channel();
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&Reply::Done).await;
        let mut kinds = Vec::new();
        while let Some(frame) = end.receive().await {
            kinds.push(frame.kind);
        }
        told.send(kinds).unwrap();
    });
    let mut file = gate.guest().write(write()).await.unwrap();
    file.write(Bytes::from_static(b"half")).await.unwrap();
    drop(file);
    assert_eq!(heard.await.unwrap(), [FrameKind::Data]);
}

#[tokio::test]
async fn a_full_disk_is_told_while_the_file_is_still_arriving() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&Reply::Done).await;
        end.receive().await;
        end.reply(&full()).await;
        end.linger().await;
    });
    let mut file = gate.guest().write(write()).await.unwrap();
    let error = loop {
        if let Err(error) = file.write(Bytes::from_static(b"more")).await {
            break error;
        }
        tokio::task::yield_now().await;
    };
    assert!(matches!(error, EngineError::Refused(failure) if failure.errno == Some(28)));
}

#[tokio::test]
async fn a_full_disk_is_told_although_the_agent_hung_up() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&Reply::Done).await;
        end.receive().await;
        end.reply(&full()).await;
    });
    let mut file = gate.guest().write(write()).await.unwrap();
    file.write(Bytes::from_static(b"first")).await.unwrap();
    let error = file.finish().await.unwrap_err();
    assert!(matches!(error, EngineError::Refused(failure) if failure.errno == Some(28)));
}

#[tokio::test]
async fn a_listing_comes_in_parts_and_may_be_empty() {
    let list = || call(FileOperation::List { path: "/".into(), depth: 1, detail: None });
    let gate = FakeGate::default()
        .serve(|mut end| async move {
            end.request().await;
            end.reply(&Reply::Entries(vec![entry("/a"), entry("/b")])).await;
            end.reply(&Reply::Entries(vec![entry("/c")])).await;
            end.send(FrameKind::End, &[]).await;
        })
        .serve(|mut end| async move {
            end.request().await;
            end.send(FrameKind::End, &[]).await;
        });
    let mut listing = gate.guest().entries(list()).await.unwrap();
    assert_eq!(listing.next().await.unwrap().unwrap().len(), 2);
    assert_eq!(listing.next().await.unwrap().unwrap().len(), 1);
    assert_eq!(listing.next().await.unwrap(), None);
    assert_eq!(listing.next().await.unwrap(), None);
    assert_eq!(gate.guest().entries(list()).await.unwrap().next().await.unwrap(), None);
}

#[tokio::test]
async fn more_matches_than_were_asked_for_are_refused() {
    let found = || GrepMatch { path: "/a".into(), line: 1, text: "x".into() };
    let gate = FakeGate::default()
        .serve(move |mut end| async move {
            end.request().await;
            end.reply(&Reply::Matches(vec![found(), found()])).await;
            end.send(FrameKind::End, &[]).await;
        })
        .serve(move |mut end| async move {
            end.request().await;
            while end
                .send(FrameKind::Message, &minicbor::to_vec(Reply::Matches(vec![found(); 9])).unwrap())
                .await
            {}
        });
    assert_eq!(gate.guest().grep(grep(2)).await.unwrap().items.len(), 2);
    assert!(matches!(gate.guest().grep(grep(100)).await, Err(EngineError::Agent { .. })));
}

fn created(path: &str) -> WatchEvent {
    WatchEvent { kind: WatchKind::Created, path: path.into(), renamed_to: None, moved_away: None }
}

fn watch() -> FileCall {
    call(FileOperation::Watch { path: "/".into(), recursive: true })
}

#[tokio::test]
async fn a_watch_tells_changes_until_the_agent_goes() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&Reply::Done).await;
        end.reply(&Reply::Changed(vec![created("n")])).await;
    });
    let mut watch = gate.guest().watch(watch()).await.unwrap();
    assert_eq!(watch.next().await.unwrap(), Some(vec![created("n")]));
    assert!(matches!(watch.next().await, Err(EngineError::SandboxEnded { .. })));
}

#[tokio::test]
async fn a_flushed_watch_tells_all_that_was_not_told() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&Reply::Done).await;
        end.reply(&Reply::Changed(vec![created("a")])).await;
        let ask = end.receive().await.unwrap();
        assert_eq!((ask.kind, ask.payload.len()), (FrameKind::Data, 0));
        end.reply(&Reply::Changed(vec![created("b"), created("c")])).await;
        end.reply(&Reply::Done).await;
        end.receive().await.unwrap();
        end.reply(&Reply::Done).await;
        end.reply(&Reply::Changed(vec![created("d")])).await;
        end.linger().await;
    });
    let mut watch = gate.guest().watch(watch()).await.unwrap();
    assert_eq!(watch.flush().await.unwrap(), [created("a"), created("b"), created("c")]);
    assert_eq!(watch.flush().await.unwrap(), []);
    assert_eq!(watch.next().await.unwrap(), Some(vec![created("d")]));
}

#[tokio::test]
async fn a_flush_that_is_given_up_loses_nothing() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&Reply::Done).await;
        end.receive().await.unwrap();
        end.reply(&Reply::Changed(vec![created("a")])).await;
        end.receive().await.unwrap();
        end.reply(&Reply::Done).await;
        end.reply(&Reply::Changed(vec![created("b")])).await;
        end.reply(&Reply::Done).await;
        end.reply(&Reply::Changed(vec![created("c")])).await;
        end.linger().await;
    });
    let mut watch = gate.guest().watch(watch()).await.unwrap();
    assert!(watch.flush().now_or_never().is_none());
    assert_eq!(watch.flush().await.unwrap(), [created("a"), created("b")]);
    assert_eq!(watch.next().await.unwrap(), Some(vec![created("c")]));
}

#[tokio::test]
async fn an_agent_that_never_ends_a_flush_is_left_behind() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&Reply::Done).await;
        let flood = minicbor::to_vec(Reply::Changed(vec![created("n"); 512])).unwrap();
        while end.send(FrameKind::Message, &flood).await {}
    });
    let mut watch = gate.guest().watch(watch()).await.unwrap();
    assert!(matches!(watch.flush().await, Err(EngineError::Agent { .. })));
}
