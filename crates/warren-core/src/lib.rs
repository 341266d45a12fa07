//! Warren's domain, with no I/O of any kind: what a sandbox is, what may be asked of it in which state, and
//! the ports behind which everything that touches the world stands.
//!
//! A value that exists here is valid: ids, sizes and specs are checked where they are made, so the layers
//! below take them as they are.

mod capabilities;
mod id;
mod isolation;
mod lifecycle;
mod limits;
mod quantity;
mod spec;

pub use capabilities::{Capabilities, Check, CheckStatus, DiskQuota};
pub use id::{SandboxId, SandboxIdError, TemplateName, TemplateNameError};
pub use isolation::{
    CreateRequest, Created, Found, Isolation, IsolationError, IsolationErrorKind, OwnerBond, RootTree, Usage,
};
pub use lifecycle::{Activity, DenyReason, Request, Status, Step, Verdict, decide};
pub use limits::{Limits, LimitsError};
pub use quantity::{ByteSize, Cpus, QuantityError, parse_duration};
pub use spec::{Mount, MountAccess, NetworkMode, Profile, SandboxSpec, SpecError};
