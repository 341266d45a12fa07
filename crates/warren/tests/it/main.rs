//! The built `warren` as users see it, in sandboxes on this machine. Needs root.

mod machine;
mod serve;
