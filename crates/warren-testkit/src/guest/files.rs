use warren_wire::guest::{
    ByteString, CHUNK, Failure, FailureCode, FileOperation, FrameKind, Reply, WriteMode,
};

use super::calls::refuse;
use super::line::Line;
use super::{Gone, Guest, watch};

/// The users of a fake sandbox, besides those named by numbers.
const USERS: [&str; 2] = ["root", "user"];

/// Refuses unknown users with the agent's message.
pub(super) fn check_user(user: Option<&ByteString>) -> Result<(), Failure> {
    let Some(name) = user.map(ByteString::to_text) else { return Ok(()) };
    if USERS.contains(&&*name) || name.starts_with(|first: char| first.is_ascii_digit()) {
        return Ok(());
    }
    Err(Failure::unknown_user(format!("look up user `{name}`: a fake sandbox has none of that name")))
}

/// Serves a call on the files in memory.
pub(super) fn serve(guest: &Guest, mut line: Line, operation: FileOperation) -> Result<(), Gone> {
    let tree = &guest.tree;
    let done = |result: Result<(), Failure>| result.map(|()| Reply::Done);
    match operation {
        FileOperation::Stat { path, .. } => line.answer(guest, tree.stat(&path).map(Reply::Entry)),
        FileOperation::Read { path, offset, length } => read(guest, &line, &path, offset, length),
        FileOperation::Write { path, mode, permissions, parents } => {
            write(guest, &mut line, &path, mode, permissions, parents)
        }
        FileOperation::List { path, depth, .. } => match tree.list(&path, depth) {
            Ok(entries) => {
                line.reply(guest, &Reply::Entries(entries))?;
                line.send(guest, FrameKind::End, &[])
            }
            Err(failure) => line.fail(guest, failure),
        },
        FileOperation::MakeDirectory { path, parents, .. } => {
            line.answer(guest, done(tree.make_directory(&path, parents)))
        }
        FileOperation::Rename { from, to } => line.answer(guest, done(tree.rename(&from, &to))),
        FileOperation::Remove { path, recursive } => line.answer(guest, done(tree.remove(&path, recursive))),
        FileOperation::SetPermissions { path, permissions } => {
            line.answer(guest, done(tree.set_permissions(&path, permissions)))
        }
        FileOperation::SetAttributes { path, prefix, attributes } => {
            line.answer(guest, done(tree.set_attributes(&path, &prefix, attributes)))
        }
        FileOperation::Watch { path, recursive } => watch::watch(guest, line, &path, recursive),
        FileOperation::SetOwner { .. }
        | FileOperation::MakeSymlink { .. }
        | FileOperation::Glob { .. }
        | FileOperation::Grep(_) => {
            line.fail(guest, refuse(FailureCode::Unsupported, "a fake sandbox does not know the call"))
        }
    }
}

fn read(guest: &Guest, line: &Line, path: &ByteString, offset: u64, length: Option<u64>) -> Result<(), Gone> {
    let (entry, bytes) = match guest.tree.read(path) {
        Ok(found) => found,
        Err(failure) => return line.fail(guest, failure),
    };
    let open = guest.open_file();
    line.reply(guest, &Reply::Entry(entry))?;
    let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(bytes.len());
    let end = place(length.map_or(u64::MAX, |length| offset.saturating_add(length)));
    for chunk in bytes[place(offset).min(end)..end].chunks(CHUNK) {
        line.send(guest, FrameKind::Data, chunk)?;
    }
    drop(open);
    line.send(guest, FrameKind::End, &[])
}

fn write(
    guest: &Guest,
    line: &mut Line,
    path: &ByteString,
    mode: WriteMode,
    permissions: Option<u32>,
    parents: bool,
) -> Result<(), Gone> {
    if let Err(failure) = guest.tree.may_write(path, mode, parents) {
        return line.fail(guest, failure);
    }
    let open = guest.open_file();
    line.reply(guest, &Reply::Done)?;
    let mut bytes = Vec::new();
    loop {
        match line.receive()? {
            Some(frame) if frame.kind == FrameKind::Data => bytes.extend_from_slice(&frame.payload),
            Some(frame) if frame.kind == FrameKind::End => break,
            _ => return Ok(()),
        }
    }
    drop(guest.awake()?);
    let written = guest.tree.write(path, mode, permissions, parents, &bytes);
    drop(open);
    line.answer(guest, written.map(|()| Reply::Written { bytes: bytes.len() as u64 }))
}
