/// A moment between two steps of a change. What a crash at each leaves behind, the next start repairs; a test goes through
/// [`EngineStep::ALL`].
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
}

impl EngineStep {
    pub const ALL: [Self; 18] = [
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
        }
    }
}
