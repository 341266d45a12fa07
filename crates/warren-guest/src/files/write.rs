//! Receiving a file's content from the host.

use warren_wire::guest::{FrameKind, Reply, WriteMode};

use super::Task;
use super::failure::{Stop, invalid, refused};
use super::place::{DIRECTORY_PERMISSIONS, Place, check_permissions, make_directories};
use super::rights::NewOwner;
use super::upload::{New, Upload};

/// Permission bits of a new file.
const FILE_PERMISSIONS: u32 = 0o644;

pub(super) struct Options {
    pub(super) mode: WriteMode,
    pub(super) permissions: Option<u32>,
    pub(super) parents: bool,
    /// The user the thread acts as.
    pub(super) uid: u32,
    pub(super) new_owner: Option<NewOwner>,
}

pub(super) fn write(task: &mut Task, place: Place, options: Options) -> Result<(), Stop> {
    let upload = open(place, &options)?;
    task.channel.reply(&Reply::Done)?;
    match receive(task, upload) {
        Ok(bytes) => task.channel.reply(&Reply::Written { bytes }),
        Err(Stop::Failed(failure)) => {
            task.channel.reply(&Reply::Failed(failure))?;
            task.channel.drain();
            Err(Stop::Gone)
        }
        Err(Stop::Gone) => Err(Stop::Gone),
    }
}

fn open(place: Place, options: &Options) -> Result<Upload, Stop> {
    let permissions = check_permissions("write", &place, options.permissions.unwrap_or(FILE_PERMISSIONS))?;
    let named = place.clone();
    let failed = |errno| refused("write", named.path(), errno);
    // A new file must not exist, not even as a link that leads nowhere; the other modes go where it
    // leads.
    let place = if options.mode == WriteMode::CreateNew { place } else { place.follow().map_err(failed)? };
    if let Some((parent, _)) = place.split().filter(|_| options.parents) {
        make_directories(parent, DIRECTORY_PERMISSIONS, options.new_owner)
            .map_err(|errno| refused("make directory", parent, errno))?;
    }
    let new = New { permissions, new_owner: options.new_owner };
    Ok(match options.mode {
        WriteMode::Replace => Upload::replace(&place, new, options.uid)?,
        WriteMode::CreateNew => Upload::create_new(&place, new)?,
        WriteMode::Append => Upload::append(&place, new)?,
        WriteMode::At { offset } => Upload::at(&place, new, offset)?,
        WriteMode::Truncate => Upload::truncate(&place, new)?,
    })
}

/// Takes everything up to End. The upload is undone when it is dropped unfinished.
fn receive(task: &mut Task, mut upload: Upload) -> Result<u64, Stop> {
    loop {
        let frame = task.channel.receive()?;
        match frame.kind {
            FrameKind::Data => upload.write(&frame.payload)?,
            FrameKind::End => return Ok(upload.finish()?),
            FrameKind::Message | FrameKind::Stdout | FrameKind::Stderr => {
                return Err(invalid("write: only data may follow the request").into());
            }
        }
    }
}
