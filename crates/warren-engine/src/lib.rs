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

mod blocking;
mod chats;
mod create;
mod engine;
mod entry;
mod error;
mod files;
mod guest;
mod processes;
mod runs;
mod sandboxes;
mod sessions;
mod settings;
mod step;

pub use chats::{ChatEnded, ChatError, ChatRequest, ChatSandbox};
pub use engine::{Engine, Mode, OpenError, Parts, ShutdownPolicy};
pub use error::{EngineError, Missing};
pub use files::{FileReader, FileWriter, Listing, Watch};
pub use processes::{
    ExecResult, LaunchStatus, Launched, Output, OutputCaps, PortStream, Process, ProcessEvent, ProcessHandle,
    ProcessInput, ProcessReader, ProcessSpec, ProcessWriter, port_of,
};
pub use runs::{Allowance, SessionDetails};
pub use sandboxes::{EventStream, Health, HealthStatus, Patch, Stats, StoppedFiles};
pub use sessions::{Acquire, Acquired, Attach, Expected, NewSandbox, Release, Requirements, SessionView};
pub use settings::{DiskThresholds, Settings, TierLimits};
pub use step::EngineStep;
