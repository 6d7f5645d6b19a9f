//! Builds the worker for sandboxes: one static binary per architecture.

use crate::functions::{megabytes, with_path};
use crate::steps::step;
use crate::tools::{self, Environment};
use crate::{Outcome, cargo, print, target};
use std::fs;
use std::path::PathBuf;

/// Static, because it must run in any image.
pub const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// Maximum size. The worker is uploaded to every new sandbox.
const MAX_BYTES: u64 = 12_000_000;

/// Builds the worker for these targets and prints the sizes. Fails if one is too large.
pub fn build(targets: &[&str]) -> Outcome {
    tools::require_compiler()?;
    let programs = Environment::Sam.require()?;
    let mut too_large = Vec::new();
    for triple in targets.iter().copied() {
        tools::require_target(triple)?;
        let mut command =
            cargo(&["zigbuild", "--release", "--locked", "--package", "worker", "--target", triple]);
        with_path(&mut command, &programs)?;
        step(&format!("build the worker for {triple}"), command)?;
        let built = built(triple);
        let bytes = fs::metadata(&built).map_err(|error| format!("{}: {error}", built.display()))?.len();
        print(&format!("{:<42}{:>12}\n", format!("sunaba-worker {triple}"), megabytes(bytes)));
        if bytes > MAX_BYTES {
            too_large.push(triple);
        }
    }
    match too_large.is_empty() {
        true => Ok(()),
        false => Err(format!("larger than {}: {}", megabytes(MAX_BYTES), too_large.join(", "))),
    }
}

fn built(triple: &str) -> PathBuf {
    target().join(triple).join("release/sunaba-worker")
}
