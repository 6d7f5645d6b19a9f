//! Logs: JSON lines for machines, text for people. What may be logged is in `docs/logging.md`.

use std::io::IsTerminal;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// Who reads the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A person at a terminal.
    Human,
    /// CloudWatch.
    Json,
}

/// Starts logging to standard error (a person's standard output is for the answer they asked for). `filter`
/// is in the usual form: `info`, `edge=debug,info`. Starting twice does nothing.
pub fn init(format: Format, filter: &str) {
    // The plainer of the two filters that the library has: the other brings regular expressions into every function.
    let filter = filter.parse::<Targets>().unwrap_or_else(|_| Targets::new().with_default(Level::INFO));
    let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let layer = match format {
        Format::Human => layer.with_target(false).boxed(),
        Format::Json => layer.json().flatten_event(true).with_current_span(false).boxed(),
    };
    // A second start (tests) must not end the process.
    let _already_started = tracing_subscriber::registry().with(filter).with(layer).try_init();
}
