//! Bodies of the REST interface under `/v1`, in both directions: the server and the client compile
//! the same types.
//!
//! Names are snake_case; a duration or size is an integer whose unit is in its name; times are RFC
//! 3339 in UTC. Requests refuse fields they do not know. Answers may gain fields, so readers ignore
//! those they do not know. What is documented here is what the OpenAPI document says, through the
//! feature `schema`.

mod backend;
mod browser;
mod code;
mod diff;
mod event;
mod file;
mod journal;
mod key;
mod network;
mod page;
mod port;
mod problem;
mod process;
mod run;
mod sandbox;
#[cfg(feature = "schema")]
mod schema;
mod secret;
mod server;
mod session;
mod snapshot;
mod stream;
mod template;
mod tool;

pub use backend::{Backend, BackendCapabilities, BackendList, MoveSandbox, MovedSandbox, Tier, WallChoice};
pub use browser::{
    Browser, BrowserAction, BrowserButton, BrowserControl, BrowserDialog, BrowserFrame, BrowserFrameList,
    BrowserHolder, BrowserNotice, BrowserPage, BrowserRefused, BrowserState,
};
pub use code::{
    CodeContext, CodeContextList, CodeEnd, CodeError, CodeOutput, CodeResult, CodeStarted, CodeText,
    NewCodeContext, RunCode,
};
pub use diff::{Conflict, Diff, DiffKind, FileDiff, FileState};
pub use event::{Event, EventPage};
pub use file::{
    ChangeMode, ChangeOwner, FileChange, FileChangeKind, FileInfo, FileList, FileType, GrepLine, GrepResult,
    MakeDirectory, MakeSymlink, MoveFile, PackFiles, Unpacked, Written,
};
pub use journal::{Blame, FileDeed, Journal, JournalAction, JournalEntry, PathState};
pub use key::{CreateKey, Key, KeyList, Scope};
pub use network::{
    AnswerNetworkAsk, ChangeNetworkRules, Network, NetworkAsk, NetworkAskList, NetworkEffect, NetworkGrant,
    NetworkLimits, NetworkLimitsRequest, NetworkLog, NetworkLogEntry, NetworkMode, NetworkProtocol,
    NetworkRequest, NetworkStatus, NetworkUsage, NetworkVerdict,
};
pub use page::Page;
pub use port::{LinkMethods, MakePortLink, Port, PortLink, SetPort};
pub use problem::Problem;
pub use process::{
    Command, Encoding, Exec, ExecResult, ExitCause, OutputRange, Process, ProcessExit, ProcessList,
    ProcessStatus, SendSignal, Signal, StartProcess, TerminalSize,
};
pub use run::{CanRun, NewRun, Run, RunDenied, RunLimits, RunLimitsRequest, RunList, RunStatus, RunTotals};
pub use sandbox::{
    CreateSandbox, Death, DeathCause, Limits, Mount, OnExpiry, PatchSandbox, PauseSandbox, PausedBy, Profile,
    Sandbox, SandboxStatus, SandboxType, SetDefaultSandbox, Timeouts, TimeoutsRequest, Usage,
};
pub use secret::{PutSecret, Secret, SecretList};
pub use server::{DiskSpace, Health, HealthDetails, HealthStatus, Stats};
pub use session::{
    AcquireSession, AttachSession, Capabilities, MarkFailed, MarkReady, Provision, ProvisionState,
    ReleaseSession, Requirements, Session, SessionDetails, SessionState, Thinking,
};
pub use snapshot::{
    CompleteTurn, ConflictRule, EXPORT_SIZE_HEADER, EndedProcess, EndedSession, Fork, Forks, HistoryMode,
    MakeTemplate, NameSnapshot, Promote, Promoted, Rollback, RolledBack, Snapshot, SnapshotList,
    SnapshotMethod, SnapshotReason, Steps, TakeSnapshot, Turn, WayBack, WayBackBy,
};
pub use stream::{
    OutputPiece, StreamAttach, StreamCommand, StreamError, StreamMissed, StreamNotice, StreamOpening,
    StreamStarted,
};
pub use template::{PullProgress, PullTemplate, Template, TemplateList};
pub use tool::{Tool, ToolCall, ToolContent, ToolList, ToolOutput, ToolResult};
