//! Warren's engine: everything that decides, over ports alone. Give it backends, a catalog, templates, a clock and randomness
//! ([`Parts`]), and it needs no server.
//!
//! A call takes the same road whoever makes it: [`Engine`] finds the sandbox's driver, the driver asks
//! [`warren_core::decide`] and is the only writer of the sandbox's status and record, and the work itself is done by the
//! backend or by the agent inside the sandbox.
//!
//! ```text
//! Engine ──► registry ──► driver (one task per sandbox) ──► Isolation (a thread) ──► the machine
//!   │                        │ record                └────► agent (frames)     ──► processes, files
//!   └──► catalog ◄───────────┘
//! ```

mod access;
mod admit;
mod backend;
mod blocking;
mod cell;
mod certificate;
mod chats;
mod create;
mod dial;
mod driver;
mod engine;
mod entry;
mod error;
mod events;
mod files;
mod guest;
mod health;
mod history;
mod images;
mod in_flight;
mod journal;
mod labour;
mod network;
mod presence;
mod processes;
mod reconcile;
mod registry;
mod runs;
mod sandboxes;
mod seats;
mod secrets;
mod sessions;
mod settings;
mod snapshots;
mod stats;
mod step;
mod sweep;
mod tools;

pub use access::{Access, Sandbox, Session};
pub use chats::{ChatEnded, ChatError, ChatRequest, ChatSandbox, Chats};
pub use engine::{Engine, Mode, OpenError, Parts, ShutdownPolicy};
pub use error::{EngineError, LostEntry, Missing, Wording};
pub use events::{EventLog, EventStream};
pub use files::{FileReader, FileWork, FileWriter, Files, Listing, Matches, Watch};
pub use health::{Health, HealthStatus};
pub use images::{
    Beginning, BuildLog, Captured, FoundImage, ImageError, Images, LogLevel, LogLine, NewBuild, Recipe,
    RecipeStep, Unbuilt, WantedLines,
};
pub use journal::{Blame, LogEntry, PathState, SandboxHistory};
pub use labour::{LabourLimits, Place, Room, Share, Trade};
pub use network::{NetworkAsk, NetworkCensus, NetworkSighting, NetworkStream, NetworkView, SandboxNetwork};
pub use processes::{
    ExecResult, LaunchStatus, Launched, LifeMark, Output, OutputCaps, PortStream, Process, ProcessEvent,
    ProcessHandle, ProcessInput, ProcessReader, ProcessSpec, ProcessWriter, Processes, Visit, give_port,
    port_of,
};
pub use runs::{Allowance, SessionDetails};
pub use sandboxes::{Patch, Sandboxes, StoppedFiles};
pub use secrets::Secrets;
pub use sessions::{
    Acquire, Acquired, Attach, Expected, NewSandbox, Release, Requirements, SessionView, Sessions,
};
pub use settings::{DiskThresholds, NetworkSettings, Settings, TierLimits};
pub use snapshots::{
    EndedProcess, EndedSession, ExportOrder, ForkOrder, Point, PromoteOrder, Promoted, RolledBack, Snapshots,
    TakeSnapshot, Taken, TurnDone, WayBack,
};
pub use stats::Stats;
pub use step::EngineStep;
pub use tools::{ContentBlock, ToolCall, ToolInfo, ToolProgress, ToolResources, ToolResult};
