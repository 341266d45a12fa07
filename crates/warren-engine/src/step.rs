/// Makes the enum of all steps from their names.
macro_rules! steps {
    ($(#[$about:meta])* $type:ident { $($(#[$doc:meta])* $step:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $type { $($(#[$doc])* $step,)* }

        impl $type {
            pub const ALL: [Self; [$(Self::$step,)*].len()] = [$(Self::$step,)*];

            pub fn name(self) -> &'static str {
                match self { $(Self::$step => $name,)* }
            }
        }
    };
}

steps! {
/// A moment between two steps of a change. What a crash at each leaves behind, the next start
/// repairs; a test goes through [`EngineStep::ALL`].
EngineStep {
    /// The sandbox is written down, nothing of it exists.
    CreateRecorded = "engine.create.recorded",
    /// It exists, and is not yet written down as ready.
    CreateMade = "engine.create.made",
    /// It is written down as ready; nobody was told.
    CreateReady = "engine.create.ready",
    /// A stopped sandbox is to be started again, its files are as they were.
    ResumeRecorded = "engine.resume.recorded",
    /// It runs, and is not yet written down as ready.
    ResumeMade = "engine.resume.made",
    ResumeReady = "engine.resume.ready",
    /// The end is written down with its cause, and everything still runs.
    StopRecorded = "engine.stop.recorded",
    /// Its processes are gone, its files are there, and the record says that it is stopping.
    StopHalted = "engine.stop.halted",
    /// The record says that it has stopped; its sessions were not told.
    StopWritten = "engine.stop.written",
    /// As [`EngineStep::StopRecorded`], but its files are to go too.
    DeleteRecorded = "engine.delete.recorded",
    /// Nothing of it is left but the record.
    DeleteDestroyed = "engine.delete.destroyed",
    DeleteWritten = "engine.delete.written",
    /// The record of a stopped sandbox says that its files are gone, and they are still there.
    FilesGivenUp = "engine.files.given-up",
    FilesRemoved = "engine.files.removed",
    /// It is frozen, and the record says that it runs.
    PauseFrozen = "engine.pause.frozen",
    PauseWritten = "engine.pause.written",
    /// It runs, and the record says that it is paused.
    ThawThawed = "engine.thaw.thawed",
    ThawWritten = "engine.thaw.written",
    /// The sandbox's files are a layer, and it stands on that; no record says so.
    SnapshotSealed = "engine.snapshot.sealed",
    /// The layer is complete, and no record names it.
    SnapshotCommitted = "engine.snapshot.committed",
    /// The snapshot and what its sandbox stands on are written down.
    SnapshotWritten = "engine.snapshot.written",
    /// It is frozen to be copied, and the record says that it runs.
    CopyFrozen = "engine.copy.frozen",
    /// As [`EngineStep::CopyFrozen`], and the copy is there.
    CopyCopied = "engine.copy.copied",
    /// It runs again, and no record names the copy.
    CopyThawed = "engine.copy.thawed",
    /// Its processes are on disk and nowhere else, and the record says that it runs.
    MemorySuspended = "engine.memory.suspended",
    /// The snapshot names them, and so does the record, for the next start.
    MemoryRecorded = "engine.memory.recorded",
    /// They go on, and that is not yet written down.
    MemoryMade = "engine.memory.made",
    MemoryReady = "engine.memory.ready",
    /// A sandbox that goes back has ended, and its record says that it runs.
    RollbackHalted = "engine.rollback.halted",
    /// Its files are captured, and nothing is left in its writable layers.
    RollbackSaved = "engine.rollback.saved",
    /// The record names the layers that it goes back to.
    RollbackSwitched = "engine.rollback.switched",
    /// It runs on them, and that is not yet written down.
    RollbackMade = "engine.rollback.made",
    RollbackReady = "engine.rollback.ready",
    /// A sandbox that goes behind another wall has ended, and its record says that it runs.
    MoveHalted = "engine.move.halted",
    /// All that it holds is in layers.
    MoveSaved = "engine.move.saved",
    /// The record names the other backend, which has nothing of it.
    MoveSwitched = "engine.move.switched",
    /// It runs there, and that is not yet written down.
    MoveMade = "engine.move.made",
    MoveReady = "engine.move.ready",
    /// Nothing of it is left where it was, and the record says that something may be.
    MoveCleared = "engine.move.cleared",
    /// One of several forks is there.
    ForkMade = "engine.fork.made",
    /// One layer is equal to several, and no record names it.
    SquashMade = "engine.squash.made",
    /// Snapshots stand on the one layer, sandboxes do not yet.
    SquashRewritten = "engine.squash.rewritten",
    /// No sandbox comes from a snapshot that is to be deleted; its record is there.
    SnapshotForgotten = "engine.snapshot.forgotten",
    /// Its record is gone, its layers are there.
    SnapshotGone = "engine.snapshot.gone",
    /// Imported layers are there, and no record names them.
    ImportMade = "engine.import.made",
    /// A merged layer is there, and no record names it.
    PromoteMade = "engine.promote.made",
    /// A sandbox that is about to start has its link, and is not there yet.
    NetworkAttached = "engine.network.attached",
    /// The link obeys the new policy beside the old one, which the record has.
    NetworkTightened = "engine.network.tightened",
    /// The record has the new policy, and the link still obeys both.
    NetworkWritten = "engine.network.written",
    NetworkRelaxed = "engine.network.relaxed",
    /// The link of a sandbox that has ended is gone; its record says that it is ending.
    NetworkDetached = "engine.network.detached",
    /// A build is written down as begun, and nothing of it exists.
    ImageBegun = "engine.image.begun",
    /// The state after a step of a build is captured, and no record names it.
    ImageStepTaken = "engine.image.step-taken",
    /// Later builds find that state.
    ImageStepKept = "engine.image.step-kept",
    /// The state of an image is captured, and no record names it.
    ImageTaken = "engine.image.taken",
    /// The image has it.
    ImageWritten = "engine.image.written",
    /// An image no longer names a snapshot, which is there.
    ImageForgotten = "engine.image.forgotten",
}
}
