/// A moment between two steps of a change. What a crash at each leaves behind, the next start
/// repairs; a test goes through [`EngineStep::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineStep {
    /// The sandbox is written down, nothing of it exists.
    CreateRecorded,
    /// It exists, and is not yet written down as ready.
    CreateMade,
    /// It is written down as ready; nobody was told.
    CreateReady,
    /// A stopped sandbox is to be started again, its files are as they were.
    ResumeRecorded,
    /// It runs, and is not yet written down as ready.
    ResumeMade,
    ResumeReady,
    /// The end is written down with its cause, and everything still runs.
    StopRecorded,
    /// Its processes are gone, its files are there, and the record says that it is stopping.
    StopHalted,
    /// The record says that it has stopped; its sessions were not told.
    StopWritten,
    /// As [`EngineStep::StopRecorded`], but its files are to go too.
    DeleteRecorded,
    /// Nothing of it is left but the record.
    DeleteDestroyed,
    DeleteWritten,
    /// The record of a stopped sandbox says that its files are gone, and they are still there.
    FilesGivenUp,
    FilesRemoved,
    /// It is frozen, and the record says that it runs.
    PauseFrozen,
    PauseWritten,
    /// It runs, and the record says that it is paused.
    ThawThawed,
    ThawWritten,
    /// What a sandbox wrote is a layer, and it stands on that; nobody knows.
    SnapshotSealed,
    /// The layer is complete, and no record names it.
    SnapshotCommitted,
    /// The snapshot and what its sandbox stands on are written down.
    SnapshotWritten,
    /// It is frozen to be copied, and the record says that it runs.
    CopyFrozen,
    /// As that, and the copy is there.
    CopyCopied,
    /// It runs again, and no record names the copy.
    CopyThawed,
    /// A sandbox that goes back has ended, and its record says that it runs.
    RollbackHalted,
    /// What it had is captured, and nothing is left in its writable layers.
    RollbackSaved,
    /// The record names the layers that it goes back to.
    RollbackSwitched,
    /// It runs on them, and that is not yet written down.
    RollbackMade,
    RollbackReady,
    /// One of several forks is there.
    ForkMade,
    /// One layer is equal to several, and no record names it.
    SquashMade,
    /// Snapshots stand on the one layer, sandboxes do not yet.
    SquashRewritten,
    /// No sandbox comes from a snapshot that is to be deleted; its record is there.
    SnapshotForgotten,
    /// Its record is gone, its layers are there.
    SnapshotGone,
    /// Imported layers are there, and no record names them.
    ImportMade,
    /// A merged layer is there, and no record names it.
    PromoteMade,
    /// A sandbox that is about to start has its link, and is not there yet.
    NetworkAttached,
    /// The link obeys the new policy beside the old one, which the record has.
    NetworkTightened,
    /// The record has the new policy, and the link still obeys both.
    NetworkWritten,
    NetworkRelaxed,
    /// The link of a sandbox that has ended is gone; its record says that it is ending.
    NetworkDetached,
    /// A build is written down as begun, and nothing of it exists.
    ImageBegun,
    /// The state after a step of a build is captured, and no record names it.
    ImageStepTaken,
    /// Later builds find that state.
    ImageStepKept,
    /// The state of an image is captured, and no record names it.
    ImageTaken,
    /// The image has it.
    ImageWritten,
    /// An image no longer names a snapshot, which is there.
    ImageForgotten,
}

impl EngineStep {
    pub const ALL: [Self; 47] = [
        Self::CreateRecorded,
        Self::CreateMade,
        Self::CreateReady,
        Self::ResumeRecorded,
        Self::ResumeMade,
        Self::ResumeReady,
        Self::StopRecorded,
        Self::StopHalted,
        Self::StopWritten,
        Self::DeleteRecorded,
        Self::DeleteDestroyed,
        Self::DeleteWritten,
        Self::FilesGivenUp,
        Self::FilesRemoved,
        Self::PauseFrozen,
        Self::PauseWritten,
        Self::ThawThawed,
        Self::ThawWritten,
        Self::SnapshotSealed,
        Self::SnapshotCommitted,
        Self::SnapshotWritten,
        Self::CopyFrozen,
        Self::CopyCopied,
        Self::CopyThawed,
        Self::RollbackHalted,
        Self::RollbackSaved,
        Self::RollbackSwitched,
        Self::RollbackMade,
        Self::RollbackReady,
        Self::ForkMade,
        Self::SquashMade,
        Self::SquashRewritten,
        Self::SnapshotForgotten,
        Self::SnapshotGone,
        Self::ImportMade,
        Self::PromoteMade,
        Self::NetworkAttached,
        Self::NetworkTightened,
        Self::NetworkWritten,
        Self::NetworkRelaxed,
        Self::NetworkDetached,
        Self::ImageBegun,
        Self::ImageStepTaken,
        Self::ImageStepKept,
        Self::ImageTaken,
        Self::ImageWritten,
        Self::ImageForgotten,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::CreateRecorded => "engine.create.recorded",
            Self::CreateMade => "engine.create.made",
            Self::CreateReady => "engine.create.ready",
            Self::ResumeRecorded => "engine.resume.recorded",
            Self::ResumeMade => "engine.resume.made",
            Self::ResumeReady => "engine.resume.ready",
            Self::StopRecorded => "engine.stop.recorded",
            Self::StopHalted => "engine.stop.halted",
            Self::StopWritten => "engine.stop.written",
            Self::DeleteRecorded => "engine.delete.recorded",
            Self::DeleteDestroyed => "engine.delete.destroyed",
            Self::DeleteWritten => "engine.delete.written",
            Self::FilesGivenUp => "engine.files.given-up",
            Self::FilesRemoved => "engine.files.removed",
            Self::PauseFrozen => "engine.pause.frozen",
            Self::PauseWritten => "engine.pause.written",
            Self::ThawThawed => "engine.thaw.thawed",
            Self::ThawWritten => "engine.thaw.written",
            Self::SnapshotSealed => "engine.snapshot.sealed",
            Self::SnapshotCommitted => "engine.snapshot.committed",
            Self::SnapshotWritten => "engine.snapshot.written",
            Self::CopyFrozen => "engine.copy.frozen",
            Self::CopyCopied => "engine.copy.copied",
            Self::CopyThawed => "engine.copy.thawed",
            Self::RollbackHalted => "engine.rollback.halted",
            Self::RollbackSaved => "engine.rollback.saved",
            Self::RollbackSwitched => "engine.rollback.switched",
            Self::RollbackMade => "engine.rollback.made",
            Self::RollbackReady => "engine.rollback.ready",
            Self::ForkMade => "engine.fork.made",
            Self::SquashMade => "engine.squash.made",
            Self::SquashRewritten => "engine.squash.rewritten",
            Self::SnapshotForgotten => "engine.snapshot.forgotten",
            Self::SnapshotGone => "engine.snapshot.gone",
            Self::ImportMade => "engine.import.made",
            Self::PromoteMade => "engine.promote.made",
            Self::NetworkAttached => "engine.network.attached",
            Self::NetworkTightened => "engine.network.tightened",
            Self::NetworkWritten => "engine.network.written",
            Self::NetworkRelaxed => "engine.network.relaxed",
            Self::NetworkDetached => "engine.network.detached",
            Self::ImageBegun => "engine.image.begun",
            Self::ImageStepTaken => "engine.image.step-taken",
            Self::ImageStepKept => "engine.image.step-kept",
            Self::ImageTaken => "engine.image.taken",
            Self::ImageWritten => "engine.image.written",
            Self::ImageForgotten => "engine.image.forgotten",
        }
    }
}
