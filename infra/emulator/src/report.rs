//! What the person who waits sees: a line for each step, as it is done.

use std::time::{Duration, Instant};

/// Steps so far.
#[derive(Debug)]
pub struct Report {
    begun: Instant,
    steps: usize,
}

impl Report {
    /// Nothing is done yet.
    pub fn new() -> Self {
        Self { begun: Instant::now(), steps: 0 }
    }

    /// Does one step and says how long it took, or names it in the failure.
    pub async fn step<T>(
        &mut self,
        name: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let begun = Instant::now();
        let done = work.await.map_err(|error| error.context(format!("it does not hold that {name}")))?;
        say(&format!("  ok  {name}  ({})\n", words(begun.elapsed())));
        self.steps += 1;
        Ok(done)
    }

    /// Something worth knowing about the step before.
    pub fn note(&self, text: &str) {
        say(&format!("        {text}\n"));
    }

    /// All is done.
    pub fn finish(&self) {
        say(&format!("{} steps on the emulator in {}.\n", self.steps, words(self.begun.elapsed())));
    }
}

fn words(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

/// For whoever started this.
pub fn say(text: &str) {
    terminal::print(text);
}

/// For whoever has to mend it.
pub fn complain(text: &str) {
    terminal::print_error(&format!("emulate: {text}"));
}
