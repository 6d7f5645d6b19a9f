//! Seeds of randomised tests. A test that fails prints its seed and the command that runs that seed alone.

use std::thread;

/// Replaces the seeds of a test.
pub const VARIABLE: &str = "SUNABA_SEED";

/// Runs a test with each of these seeds, or only with the one in [`VARIABLE`].
pub async fn each(seeds: impl IntoIterator<Item = u64>, mut test: impl AsyncFnMut(u64)) {
    for seed in chosen(seeds) {
        let _failure = Seed::of(seed);
        test(seed).await;
    }
}

/// The seeds of a test: these, or only the one in [`VARIABLE`].
pub fn chosen(seeds: impl IntoIterator<Item = u64>) -> Vec<u64> {
    #[expect(clippy::disallowed_methods, reason = "a developer sets it to run one seed again")]
    match std::env::var(VARIABLE) {
        Ok(seed) => {
            vec![seed.parse().unwrap_or_else(|_| panic!("{VARIABLE} must be a number, not {seed:?}"))]
        }
        Err(_) => seeds.into_iter().collect(),
    }
}

/// The seed of a test that is running. Dropped by a panic, it prints how to run the test again.
#[derive(Debug)]
pub struct Seed {
    /// The number.
    pub value: u64,
    test: String,
}

impl Seed {
    /// This one.
    pub fn of(value: u64) -> Self {
        // The test harness names the thread of a test after it.
        Self { value, test: thread::current().name().unwrap_or_default().to_owned() }
    }

    /// This one, unless [`VARIABLE`] has another.
    pub fn or(usual: u64) -> Self {
        Self::of(chosen([usual])[0])
    }

    fn advice(&self) -> String {
        let Self { value, test } = self;
        format!(
            "Seed {value} failed. To run it alone: {VARIABLE}={value} cargo test --workspace -- --exact {test}"
        )
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            #[expect(clippy::print_stderr, reason = "the test harness shows it with the failure")]
            {
                eprintln!("{}", self.advice());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_names_the_seed_and_the_command_that_runs_it_again() {
        let advice = Seed::of(17).advice();
        let command = "SUNABA_SEED=17 cargo test --workspace -- --exact \
                       seed::tests::failure_names_the_seed_and_the_command_that_runs_it_again";
        assert!(advice.starts_with("Seed 17 failed.") && advice.ends_with(command), "{advice}");
    }
}
