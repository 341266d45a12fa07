use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, bail};
use warren_wire::guest::{
    ByteString, Connection, FailureCode, FileCall, FileOperation, FrameKind, GrepQuery, Reply, Request,
    WatchKind, WriteMode,
};

use crate::support::Agent;

fn call(user: Option<&str>, operation: FileOperation) -> Request {
    Request::File(FileCall { user: user.map(ByteString::from), operation, as_root: None })
}

fn path(agent: &Agent, name: &str) -> ByteString {
    (&agent.directory.path().join(name)).into()
}

fn write(agent: &Agent, name: &str, content: &[u8]) -> Result<u64> {
    let operation = FileOperation::Write {
        path: path(agent, name),
        mode: WriteMode::Replace,
        permissions: Some(0o600),
        parents: true,
    };
    let mut connection = agent.open(&call(None, operation))?;
    assert_eq!(connection.reply()?, Reply::Done);
    connection.send_data(content)?;
    connection.send_end()?;
    match connection.reply()? {
        Reply::Written { bytes } => Ok(bytes),
        other => bail!("unexpected {other:?}"),
    }
}

/// Data and messages up to End.
fn collect(connection: &mut Connection<UnixStream>) -> Result<(Vec<u8>, Vec<Reply>)> {
    let (mut data, mut replies) = (Vec::new(), Vec::new());
    loop {
        let frame = connection.next_frame()?.context("the call ends with End")?;
        match frame.kind {
            FrameKind::Data => data.extend_from_slice(&frame.payload),
            FrameKind::End => return Ok((data, replies)),
            _ => replies.push(minicbor::decode(&frame.payload)?),
        }
    }
}

#[test]
fn content_goes_in_and_comes_out() -> Result<()> {
    let agent = Agent::start()?;
    let content: Vec<u8> =
        (0..3_000_000_u32).map(|number| number.to_le_bytes()[number as usize % 3]).collect();
    assert_eq!(write(&agent, "new/dir/file", &content)?, 3_000_000);
    let operation =
        FileOperation::Read { path: path(&agent, "new/dir/file"), offset: 10, length: Some(2_500_000) };
    let (data, replies) = collect(&mut agent.open(&call(None, operation))?)?;
    assert!(data == content[10..2_500_010]);
    assert!(
        matches!(replies.as_slice(), [Reply::Entry(entry)] if entry.size == 3_000_000 && entry.permissions == 0o600)
    );
    Ok(())
}

#[test]
fn data_sent_right_behind_the_request_is_not_lost() -> Result<()> {
    let agent = Agent::start()?;
    let operation = FileOperation::Write {
        path: path(&agent, "eager"),
        mode: WriteMode::CreateNew,
        permissions: None,
        parents: false,
    };
    let mut connection = agent.open(&call(None, operation))?;
    connection.send_data(b"eager")?;
    connection.send_end()?;
    assert_eq!(connection.reply()?, Reply::Done);
    assert_eq!(connection.reply()?, Reply::Written { bytes: 5 });
    assert!(connection.next_frame()?.is_none());
    Ok(())
}

#[test]
fn rights_are_those_of_the_call_and_not_of_the_agent() -> Result<()> {
    let agent = Agent::start()?;
    std::fs::set_permissions(agent.directory.path(), PermissionsExt::from_mode(0o777))?;
    write(&agent, "secret", b"x")?;
    let read = FileOperation::Read { path: path(&agent, "secret"), offset: 0, length: None };
    for _ in 0..20 {
        let refusal = agent.refusal(&call(Some("1000:1000"), read.clone()))?;
        assert_eq!(refusal.code, FailureCode::PermissionDenied);
        // The same agent still serves root, on another thread.
        assert_eq!(collect(&mut agent.open(&call(None, read.clone()))?)?.0, b"x");
    }
    let make = FileOperation::MakeDirectory { path: path(&agent, "own"), permissions: None, parents: false };
    assert_eq!(agent.ask(&call(Some("1000:1000"), make))?, Reply::Done);
    assert_eq!(std::fs::metadata(agent.directory.path().join("own"))?.uid(), 1000);
    Ok(())
}

#[test]
fn trees_are_listed_searched_and_removed() -> Result<()> {
    let agent = Agent::start()?;
    for name in ["t/a/one.txt", "t/b/two.txt", "t/b/three.log"] {
        write(&agent, name, format!("this is {name}\n").as_bytes())?;
    }
    let top = path(&agent, "t");
    let count = |operation: FileOperation| -> Result<usize> {
        let (_, replies) = collect(&mut agent.open(&call(None, operation))?)?;
        Ok(replies
            .iter()
            .map(|reply| match reply {
                Reply::Entries(entries) => entries.len(),
                Reply::Matches(matches) => matches.len(),
                _ => 0,
            })
            .sum())
    };
    assert_eq!(count(FileOperation::List { path: top.clone(), depth: 9, detail: None })?, 5);
    assert_eq!(count(FileOperation::Glob { root: top.clone(), pattern: "**/*.txt".into(), limit: 9 })?, 2);
    let query =
        GrepQuery { root: top.clone(), pattern: "IS .*two".into(), ignore_case: true, files: None, limit: 9 };
    assert_eq!(count(FileOperation::Grep(query))?, 1);
    assert_eq!(agent.ask(&call(None, FileOperation::Remove { path: top, recursive: true }))?, Reply::Done);
    assert!(!agent.directory.path().join("t").exists());
    Ok(())
}

#[test]
fn watches_end_with_their_connections_and_leave_nothing() -> Result<()> {
    let agent = Agent::start()?;
    let watch = call(None, FileOperation::Watch { path: path(&agent, "."), recursive: true });
    let before = agent.open_descriptors()?;
    for number in 0..20 {
        let mut connection = agent.open(&watch)?;
        assert_eq!(connection.reply()?, Reply::Done);
        let name = format!("{number}");
        std::fs::create_dir(agent.directory.path().join(&name))?;
        let Reply::Changed(events) = connection.reply()? else { bail!("no events") };
        assert_eq!((events[0].kind, &events[0].path), (WatchKind::Created, &ByteString::from(name)));
    }
    agent.eventually("descriptors are closed", || agent.open_descriptors().is_ok_and(|now| now <= before))?;
    agent.ping()
}
