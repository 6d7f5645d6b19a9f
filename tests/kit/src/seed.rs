//! Seeds of randomized tests. A failing test prints its seed and the command that repeats it.

use std::thread;

/// Overrides the seeds of a test.
pub const VARIABLE: &str = "SUNABA_SEED";

/// Overrides the number of seeds of the tests that start processes, each of which takes seconds.
const COUNT_VARIABLE: &str = "SUNABA_SEEDS";

/// The number of seeds of a test: this one, unless `COUNT_VARIABLE` overrides it.
pub fn count(default: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a developer sets it to run more seeds")]
    match std::env::var(COUNT_VARIABLE) {
        Ok(count) => {
            count.parse().unwrap_or_else(|_| panic!("{COUNT_VARIABLE} must be a number, not {count:?}"))
        }
        Err(_) => default,
    }
}

/// Runs a test with each seed, or only with the one in [`VARIABLE`].
pub async fn each(seeds: impl IntoIterator<Item = u64>, mut test: impl AsyncFnMut(u64)) {
    for seed in chosen(seeds) {
        let _failure = Seed::of(seed);
        test(seed).await;
    }
}

/// These seeds, or only the one in [`VARIABLE`].
pub fn chosen(seeds: impl IntoIterator<Item = u64>) -> Vec<u64> {
    #[expect(clippy::disallowed_methods, reason = "a developer sets it to repeat one seed")]
    match std::env::var(VARIABLE) {
        Ok(seed) => {
            vec![seed.parse().unwrap_or_else(|_| panic!("{VARIABLE} must be a number, not {seed:?}"))]
        }
        Err(_) => seeds.into_iter().collect(),
    }
}

/// The seed of a running test. If it is dropped by a panic, it prints how to repeat the test.
#[derive(Debug)]
pub struct Seed {
    pub value: u64,
    test: String,
}

impl Seed {
    pub fn of(value: u64) -> Self {
        // The test harness names the thread of a test after it.
        Self { value, test: thread::current().name().unwrap_or_default().to_owned() }
    }

    /// This seed, unless [`VARIABLE`] overrides it.
    pub fn or(default: u64) -> Self {
        Self::of(chosen([default])[0])
    }

    fn rerun_hint(&self) -> String {
        let Self { value, test } = self;
        format!(
            "Seed {value} failed. To repeat it: {VARIABLE}={value} cargo test --workspace -- --exact {test}"
        )
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            #[expect(clippy::print_stderr, reason = "the test harness shows it with the failure")]
            {
                eprintln!("{}", self.rerun_hint());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_prints_seed_and_command() {
        let hint = Seed::of(17).rerun_hint();
        let command = "SUNABA_SEED=17 cargo test --workspace -- --exact \
                       seed::tests::failure_prints_seed_and_command";
        assert!(hint.starts_with("Seed 17 failed.") && hint.ends_with(command), "{hint}");
    }
}
