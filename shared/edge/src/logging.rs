//! Logs: JSON lines for machines, text for people. What may be logged is in `docs/logging.md`.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

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
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let builder = builder.with_ansi(std::io::stderr().is_terminal());
    // A second start (tests) must not end the process.
    let _already_started = match format {
        Format::Human => builder.with_target(false).try_init(),
        Format::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    };
}
