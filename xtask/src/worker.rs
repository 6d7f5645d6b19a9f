//! The worker as sandboxes get it: one file that needs nothing, for both processors.

use crate::functions::{megabytes, with_path};
use crate::steps::step;
use crate::tools::{self, Environment};
use crate::{Outcome, cargo, say, target};
use std::fs;
use std::path::PathBuf;

/// Static: it must run in whatever image a sandbox is made of.
pub const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// It is put into every sandbox before anything can begin.
const MAX_BYTES: u64 = 12_000_000;

/// Builds it for these, reports how large each is, and fails where one is too large.
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
        say(&format!("{:<42}{:>12}\n", format!("sunaba-worker {triple}"), megabytes(bytes)));
        if bytes > MAX_BYTES {
            too_large.push(triple);
        }
    }
    match too_large.is_empty() {
        true => Ok(()),
        false => Err(format!("larger than {}: {}", megabytes(MAX_BYTES), too_large.join(", "))),
    }
}

/// Where cargo puts it.
fn built(triple: &str) -> PathBuf {
    target().join(triple).join("release/sunaba-worker")
}
