/// Kinds of heavy work, see `bounds`. Each has its own places, because they are held for different
/// lengths of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// Comparing, searching and joining files, as fast as the machine can.
    Comparison,
    /// An archive on its way in or out, at the pace of a client.
    Transfer,
    /// A list or a search whose answer is put together in memory.
    Listing,
    /// Work that nobody waits for, like joining layers.
    Upkeep,
}

impl WorkKind {
    /// The limit in words.
    pub(crate) fn limit(self, each_owner: usize, all: usize) -> String {
        let what = match self {
            Self::Comparison => "comparisons, searches and merges of files",
            Self::Transfer => "archives on their way",
            Self::Listing => "lists and searches",
            Self::Upkeep => "layers being joined",
        };
        format!("{each_owner} {what} of one owner are done at once, and {all} in all")
    }
}
