//! Calls on the sandbox's files.
//!
//! The loop hands a [`FileCall`] with its connection to [`serve`], on a thread of its own: file
//! systems block, and rights are a property of a thread. One call goes through five steps: the user
//! is looked up, the thread takes on that user's rights, the operation runs, its answers go out as
//! they arise, and a refusal, if any, is the last of them. Whatever the sandbox puts in the way
//! (FIFOs, devices, endless files, trees of any depth, links) neither holds the thread for good nor
//! makes it grow.

mod attributes;
mod change;
mod channel;
mod descent;
mod entry;
mod failure;
mod grep;
mod list;
mod place;
mod read;
mod remove;
mod rights;
mod search;
mod sys;
mod upload;
mod walk;
mod watch;
mod write;

#[cfg(test)]
mod tests;

use std::os::unix::net::UnixStream;

use warren_wire::guest::{AgentConfig, Failure, FileCall, FileOperation, FrameDecoder, Reply};

use channel::Channel;
use entry::Names;
use failure::Stop;
use place::Place;
use rights::NewOwner;

pub(crate) use sys::user_for_files;

use crate::identity::{self, Identity};
use crate::outside::Outside;

/// Serves one call and closes its connection. `decoder` holds what was read behind the request. The
/// calling thread keeps the call's rights, so it must do nothing else afterwards.
pub(crate) fn serve(
    call: FileCall,
    stream: UnixStream,
    decoder: FrameDecoder,
    config: &AgentConfig,
    outside: Option<&Outside>,
) {
    let Ok(channel) = Channel::new(stream, decoder) else { return };
    let mut task = Task { channel, names: Names::default(), new_owner: None };
    if let Err(Stop::Failed(failure)) = task.run(call, config, outside) {
        // A host that has gone meanwhile cannot be told.
        task.channel.reply(&Reply::Failed(failure)).ok();
    }
}

/// The inputs of an operation.
struct Task {
    channel: Channel,
    names: Names,
    /// The owner of new files; absent: the user that the operation acts as, by the kernel's own
    /// rules.
    new_owner: Option<NewOwner>,
}

impl Task {
    fn run(&mut self, call: FileCall, config: &AgentConfig, outside: Option<&Outside>) -> Result<(), Stop> {
        let identity = identity::resolve(call.user.as_ref(), config)?;
        let as_root = call.as_root == Some(true) || identity.uid == 0;
        if let Some(outside) = outside.filter(|_| as_root && call.operation.changes_files()) {
            outside.open_up();
        }
        if call.as_root == Some(true) {
            self.new_owner = Some(rights::assume_root_for(&identity)?);
        } else {
            rights::assume(&identity)?;
        }
        self.operate(call.operation, &identity)
    }

    fn operate(&mut self, operation: FileOperation, identity: &Identity) -> Result<(), Stop> {
        let place = |path| Place::new(path, &identity.home);
        match operation {
            FileOperation::Stat { path, follow, detail } => {
                read::stat(self, &place(path)?, follow, detail.as_ref())
            }
            FileOperation::Read { path, offset, length } => read::read(self, &place(path)?, offset, length),
            FileOperation::Write { path, mode, permissions, parents } => {
                let options = write::Options {
                    mode,
                    permissions,
                    parents,
                    uid: self.acts_as(identity),
                    new_owner: self.new_owner,
                };
                write::write(self, place(path)?, options)
            }
            FileOperation::List { path, depth, detail } => list::list(self, &place(path)?, depth, detail),
            FileOperation::MakeDirectory { path, permissions, parents } => {
                self.done(change::make_directory(&place(path)?, permissions, parents, self.new_owner))
            }
            FileOperation::Rename { from, to } => self.done(change::rename(&place(from)?, &place(to)?)),
            FileOperation::Remove { path, recursive } => self.done(remove::remove(&place(path)?, recursive)),
            FileOperation::SetPermissions { path, permissions } => {
                self.done(change::set_permissions(&place(path)?, permissions))
            }
            FileOperation::SetOwner { path, owner } => self.done(change::set_owner(&place(path)?, &owner)),
            FileOperation::MakeSymlink { path, target } => {
                self.done(change::make_symlink(&place(path)?, &target, self.new_owner))
            }
            FileOperation::Glob { root, pattern, limit } => {
                search::glob(self, &place(root)?, &pattern, limit)
            }
            FileOperation::Grep(query) => grep::grep(self, &place(query.root.clone())?, &query),
            FileOperation::Watch { path, recursive } => watch::watch(self, &place(path)?, recursive),
            FileOperation::SetAttributes { path, prefix, attributes } => {
                self.done(attributes::set(&place(path)?, &prefix, &attributes))
            }
        }
    }

    fn acts_as(&self, identity: &Identity) -> u32 {
        if self.new_owner.is_some() { 0 } else { identity.uid }
    }

    fn done(&mut self, outcome: Result<(), Failure>) -> Result<(), Stop> {
        outcome?;
        self.channel.reply(&Reply::Done)
    }
}
