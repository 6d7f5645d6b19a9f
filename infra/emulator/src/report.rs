//! Progress output: one line for each completed step.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Clones share the count, so that steps can run at the same time.
#[derive(Debug, Clone)]
pub struct Report {
    begun: Instant,
    steps: Arc<AtomicUsize>,
}

impl Report {
    pub fn new() -> Self {
        Self { begun: Instant::now(), steps: Arc::default() }
    }

    /// Runs a step and prints its duration. On failure, adds the step's name to the error.
    pub async fn step<T>(
        &mut self,
        name: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let begun = Instant::now();
        let result = work.await.map_err(|error| error.context(format!("failed: {name}")))?;
        print(&format!("  ok  {name}  ({})\n", duration(begun.elapsed())));
        self.steps.fetch_add(1, Ordering::Relaxed);
        Ok(result)
    }

    /// Prints a detail of the previous step.
    pub fn note(&self, text: &str) {
        print(&format!("        {text}\n"));
    }

    pub fn finish(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        print(&format!("{steps} steps passed in {}.\n", duration(self.begun.elapsed())));
    }
}

fn duration(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

pub fn print(text: &str) {
    terminal::print(text);
}

pub fn print_error(text: &str) {
    terminal::print_error(&format!("emulate: {text}"));
}
