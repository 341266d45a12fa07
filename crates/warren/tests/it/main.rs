//! What users see of the built `warren`, in sandboxes on this machine. Needs root.

mod machine;
mod serve;
