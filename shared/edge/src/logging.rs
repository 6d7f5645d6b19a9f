//! Logs: JSON lines for CloudWatch, text for a terminal. `docs/logging.md` says what may be logged.

use crate::spans;
use std::io::IsTerminal;
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text, for a terminal.
    Human,
    /// One JSON object per line, for CloudWatch.
    Json,
}

/// Starts logging to standard error; standard output is for the results of commands. `filter` has the usual form: `info`,
/// `edge=debug,info`. A second call does nothing.
pub fn init(format: Format, filter: &str) {
    // Tests call this several times in one process.
    let _already_started = subscriber(format, filter, std::io::stderr).try_init();
}

/// Like [`init`], for a writer of the caller's choice. An invalid filter counts as `info`.
pub fn subscriber<W>(format: Format, filter: &str, writer: W) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    // `Targets` instead of `EnvFilter`, which would link a regex engine into every function.
    let filter = filter.parse::<Targets>().unwrap_or_else(|_| Targets::new().with_default(Level::INFO));
    let filter = filter.with_target(spans::TARGET, Level::ERROR);
    let layer = fmt::layer().with_writer(writer).with_ansi(std::io::stderr().is_terminal());
    let layer = match format {
        Format::Human => layer.with_target(false).boxed(),
        // The innermost span is the trigger's, with its id; see `spans`.
        Format::Json => {
            layer.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
        }
    };
    tracing_subscriber::registry().with(filter).with(layer)
}
