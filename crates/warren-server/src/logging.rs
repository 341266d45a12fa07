//! The server's log: one line for each request, and whatever else is worth a line. Never a key, a
//! variable's value or a body.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer, Registry};

use crate::config::{Log, LogFormat};

/// The writer of the log, as the settings say.
pub fn subscriber<W>(log: &Log, writer: W) -> impl tracing::Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_target(false);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match log.format {
        LogFormat::Text => Box::new(lines.with_ansi(false)),
        LogFormat::Json => Box::new(lines.json().flatten_event(true)),
    };
    // All our crates begin with this word, so a new one is not forgotten.
    let ours = Targets::new().with_default(LevelFilter::WARN).with_target("warren", log.level.0);
    // It complains of clients that hang up or say something wrong, and repeats their words.
    let ours = ours.with_target("rmcp", LevelFilter::OFF);
    Registry::default().with(lines.with_filter(ours))
}
