//! Warren's engine: everything that decides, over ports alone. Give it backends, a catalog,
//! templates, a clock and randomness ([`Parts`]), and it needs no server.
//!
//! Every call takes the same way: [`Engine::as_`] says who asks, and its handles find the sandbox's
//! driver. The driver asks [`warren_core::decide`] and is the only writer of the sandbox's status
//! and record, and the work itself is done by the backend or by the agent inside the sandbox.
//!
//! ```text
//! Engine::as_(caller) ──► sandbox(id) ──► driver (one task per sandbox) ──► Isolation (a thread)
//!                              │              │ record
//!                              │              └──► catalog
//!                              └──► entry ──► agent (frames) ──► processes, files
//! ```
//!
//! Modules use only those further down:
//!
//! ```text
//! open                                            the beginning and the end
//! reconcile sweep health stats forget             the engine's own work
//! chats tools images snapshots runs               what is done with sandboxes
//! sessions files processes network secrets events pools
//! moves
//! create sandboxes entry admit journal
//! driver                                          one sandbox each
//! walls                                           the wall that a sandbox may have
//! engine                                          the engine, and handles for a caller
//! state                                           what it holds in memory
//! cell guest                                      one sandbox, as everybody sees it; its agent
//! ports settings bounds                           threads for ports, limits on owners
//! error work_kind step certificate shown          words and leaves
//! ```

mod admit;
mod base;
mod bounds;
mod cell;
mod certificate;
mod chats;
mod create;
mod driver;
mod engine;
mod entry;
mod error;
mod events;
mod files;
mod forget;
mod guest;
mod health;
mod images;
mod journal;
mod moves;
mod network;
mod open;
mod pools;
mod ports;
mod processes;
mod reconcile;
mod runs;
mod sandboxes;
mod secrets;
mod sessions;
mod settings;
mod shown;
mod snapshots;
mod state;
mod stats;
mod step;
mod sweep;
mod tools;
mod walls;
mod work_kind;

pub use bounds::{HeavyWorkLimits, Place, Room, Share};
pub use cell::{EndedProcess, Moved, Patch, RolledBack, Taken, WayBack};
pub use chats::{ChatEnded, ChatError, ChatRequest, ChatSandbox, Chats};
pub use create::NewSandbox;
pub use engine::{Access, Engine, OpenError, Sandbox, Session};
pub use error::{EngineError, LostEntry, Missing, Wording};
pub use events::{EventLog, EventStream};
pub use files::{FileReader, FileWork, FileWriter, Files, Listing, Matches, Watch};
pub use health::{BackendInfo, Health, HealthStatus};
pub use images::{
    Beginning, BuildLog, Captured, FoundImage, ImageError, Images, LogLevel, LogLine, NewBuild, Recipe,
    RecipeStep, Unbuilt, WantedLines,
};
pub use journal::{Blame, LogEntry, PathState, SandboxHistory};
pub use network::{NetworkCensus, NetworkStream, NetworkView, SandboxNetwork};
pub use open::ShutdownPolicy;
pub use processes::{
    Collector, ExecResult, LaunchStatus, Launched, LifeMark, Output, OutputCaps, PortStream, Process,
    ProcessEvent, ProcessHandle, ProcessInput, ProcessReader, ProcessSpec, ProcessWriter, Processes, Visit,
    give_port, port_of,
};
pub use runs::{Allowance, SessionDetails};
pub use sandboxes::{Sandboxes, StoppedFiles};
pub use secrets::Secrets;
pub use sessions::{
    Abilities, Acquire, Acquired, Attach, Expected, Release, Requirements, SessionView, Sessions,
};
pub use settings::{
    DiskThresholds, NetworkSettings, PoolSettings, RaiseWhen, Settings, TierLimits, WallSettings,
};
pub use snapshots::{
    EndedSession, ExportOrder, ForkOrder, Point, PromoteOrder, Promoted, Snapshots, TakeSnapshot, ToldSize,
    TurnDone,
};
pub use state::{AbsentBackend, Mode, NetworkAsk, NetworkSighting, Parts};
pub use stats::Stats;
pub use step::EngineStep;
pub use tools::{ContentBlock, ToolCall, ToolInfo, ToolProgress, ToolResources, ToolResult};
pub use work_kind::WorkKind;
