/// Kinds of heavy work: see `bounds`. Each has places of its own, since they are held for different
/// reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trade {
    /// Comparing, searching and joining files: as fast as the machine can.
    Reading,
    /// Archives on their way in or out, at the pace of a client.
    Carrying,
    /// Lists and searches whose answers are put together in memory.
    Telling,
    /// What nobody waits for, like joining layers.
    Tending,
}

impl Trade {
    /// The limit in words.
    pub(crate) fn limit(self, each_owner: usize, all: usize) -> String {
        let what = match self {
            Self::Reading => "comparisons, searches and merges of files",
            Self::Carrying => "archives on their way",
            Self::Telling => "lists and searches",
            Self::Tending => "layers being joined",
        };
        format!("{each_owner} {what} of one owner are done at once, and {all} in all")
    }
}
