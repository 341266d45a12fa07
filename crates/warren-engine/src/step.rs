/// A moment between two steps of a change. What a crash at each leaves behind, the next start repairs; a test goes through
/// [`EngineStep::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineStep {
    /// The sandbox is written down, nothing of it exists.
    CreateRecorded,
    /// It exists, and is not yet written down as ready.
    CreateMade,
}

impl EngineStep {
    pub const ALL: [Self; 2] = [Self::CreateRecorded, Self::CreateMade];

    pub fn name(self) -> &'static str {
        match self {
            Self::CreateRecorded => "engine.create.recorded",
            Self::CreateMade => "engine.create.made",
        }
    }
}
