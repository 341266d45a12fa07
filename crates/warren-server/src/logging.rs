//! The server's log: one line for each request, and whatever else is worth a line. Never a key, a variable's value or a body.

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer, Registry};

use crate::config::{Log, LogFormat};

/// The crates whose lines are written from the level that the settings name; of all others, warnings and worse.
const OURS: [&str; 9] = [
    "warren",
    "warren_core",
    "warren_e2b",
    "warren_engine",
    "warren_face",
    "warren_isolate",
    "warren_network",
    "warren_server",
    "warren_store",
];

/// What writes the log, as the settings say.
pub fn subscriber<W>(log: &Log, writer: W) -> impl tracing::Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_target(false);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match log.format {
        LogFormat::Text => Box::new(lines.with_ansi(false)),
        LogFormat::Json => Box::new(lines.json().flatten_event(true)),
    };
    let ours = tracing_subscriber::filter::Targets::new()
        .with_default(LevelFilter::WARN)
        .with_targets(OURS.map(|name| (name, log.level.0)));
    Registry::default().with(lines.with_filter(ours))
}
