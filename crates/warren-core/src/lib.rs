//! Warren's domain, with no I/O of any kind: what a sandbox is, what may be asked of it in which
//! state, and the ports behind which everything that touches the world stands.
//!
//! A value that exists here is valid: ids, sizes and specs are checked where they are made, so the
//! layers below take them as they are.

mod abandon;
mod caller;
mod capabilities;
pub mod catalog;
mod check;
mod death;
mod diff;
mod error;
mod event;
mod failure;
mod field;
mod id;
mod ignore;
mod image;
mod isolation;
mod journal;
mod key;
mod layers;
mod lifecycle;
mod limits;
pub mod network;
mod node;
mod owner;
mod page;
mod port;
mod quantity;
mod registry;
mod root;
mod root_image;
mod run;
mod sandbox;
mod sandbox_word;
mod session;
mod snapshot;
mod spec;
mod stack;
mod templates;
mod text;
mod traffic;
mod unique;
mod world;

pub use abandon::{abandonable, abandoned};
pub use caller::Caller;
pub use capabilities::{
    Capabilities, DiskQuota, IsolationKind, Need, NetworkSupport, Refusal, SnapshotSupport, TierError,
    WallChoice,
};
pub use check::{Check, CheckStatus};
pub use death::{DeathCause, DeathCertificate};
pub use diff::{
    Change, ChangeKind, Conflict, Conflicts, Diff, DiffOptions, Differences, Entry, EntryKind, Merge,
    MergeOrder, TextDiff,
};
pub use error::{ErrorCode, ErrorKind, error_chain};
pub use event::{Event, EventRecord};
pub use failure::Failure;
pub use field::{Field, NetworkLimit, PolicyField};
pub use id::{SandboxId, SandboxIdError, TemplateName, TemplateNameError};
pub use ignore::{IgnoreError, Ignored, LeaveOut, MOST_IGNORE_BYTES};
pub use image::{
    BuildFailure, BuildFiles, BuildOutcome, BuildRecord, BuildStep, BuildStepError, Built, CopyFiles,
    DEFAULT_TAG, FilesHash, FilesHashError, ImageContext, ImageDenied, ImageId, ImageOrigin, ImageRecord,
    ImageRef, ImageRefError, KeptStep, StartCommands, Tag, UnknownUser, check_tag,
};
pub use isolation::{
    CreateRequest, Created, DiskSpace, Found, Isolation, IsolationError, IsolationErrorKind, Layered, Memory,
    MountRefusal, MountSource, OwnerBond, Pulse, Sealed, Usage,
};
pub use journal::{Action, FileDeed, JournalEntry, Outcome, ToolAnswer};
pub use key::{KeyRecord, Scope};
pub use layers::{
    Copied, CopiedData, CopyBound, CopyOrder, Draft, Export, ImportFormat, ImportedHistory, ImportedSnapshot,
    LayerContent, LayerCopy, LayerDriver, LayerError, LayerErrorKind, LayerInfo, LayerStore, MOST_LAYERS,
    NewLayer, SQUASH_DEPTH, Settled, TooMuch,
};
pub use lifecycle::{Activity, Busy, DenyReason, Request, Status, Step, Verdict, decide};
pub use limits::{Limits, LimitsError};
pub use network::{
    Attachment, Host, HostName, NetworkEntry, NetworkError, NetworkErrorKind, NetworkLimits, NetworkMode,
    NetworkObserver, NetworkPolicy, NetworkRule, NetworkUsage, NetworkVerdict, Networks, NoNetworks, Secret,
    SecretName, SecretRecord,
};
pub use node::{NodeId, NodeIdError, NodeRecord};
pub use owner::{Owner, OwnerError};
pub use page::{Cursor, Page, PageRequest};
pub use port::{PortRecord, PortSettings};
pub use quantity::{ByteSize, Cpus, QuantityError, parse_duration};
pub use registry::{
    DOCKER_HUB, ImageAddress, ImageAddressError, ImageSource, OpenRegistries, RegistryError,
    RegistryErrorKind,
};
pub use root::{FoundImage, Root, RootKind, RootState, RootTree, Shown};
pub use root_image::{RootImage, RootImageName, RootImageNameError};
pub use run::{NewRun, RunDenied, RunRecord, RunStatus, can_run, record_run};
pub use sandbox::{OnExpiry, PauseKeeps, Paused, PausedBy, SandboxRecord};
pub use sandbox_word::{SandboxName, SandboxNameError, SandboxWord, SandboxWordError};
pub use session::{
    Provision, RunLimits, RunTotals, SessionRecord, SessionRequest, SessionState, SessionVerdict, Timeouts,
    decide_session,
};
pub use snapshot::{Automatic, Flush, History, SnapshotMethod, SnapshotReason, SnapshotRecord};
pub use spec::{Base, Mount, MountAccess, Profile, SandboxKind, SandboxSpec, SpecError, check_labels};
pub use stack::{Space, Stack};
pub use templates::{TemplateError, TemplateErrorKind, TemplateInfo, Templates};
pub use traffic::{Traffic, TrafficError, Wake};
pub use unique::{BuildId, KeyId, LayerId, RunId, SessionId, SnapshotId, UniqueIdError};
pub use world::{Clock, Deadline, Random};
