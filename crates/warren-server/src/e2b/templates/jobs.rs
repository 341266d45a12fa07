//! Builds that go on, or ended a short while ago, and what they have to tell.

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Jobs {}
