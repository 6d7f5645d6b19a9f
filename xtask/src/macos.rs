//! `cargo xtask check-macos`: type-checks the programs that developers run on macOS. Nothing is linked or run.

use crate::functions::with_path;
use crate::steps::step;
use crate::tools::{self, Environment};
use crate::{Outcome, root};
use std::process::Command;

const TRIPLE: &str = "aarch64-apple-darwin";
/// Crates with C code. Their output is discarded, so they are compiled without optimization.
const UNOPTIMIZED: [&str; 3] = ["libsqlite3-sys", "zstd-sys", "aws-lc-sys"];

/// Checks `local` and `worker`. zig compiles the C code of their dependencies, because it includes macOS headers.
pub fn check() -> Outcome {
    let programs = Environment::Sam.require()?;
    tools::require_target(TRIPLE)?;
    let mut command = Command::new(programs.join("cargo-zigbuild"));
    // Uses the release profile so as not to wait for the lock of a concurrent debug build.
    command.args([
        "check",
        "--release",
        "--locked",
        "--package",
        "local",
        "--package",
        "worker",
        "--target",
        TRIPLE,
    ]);
    for package in UNOPTIMIZED {
        command.arg("--config").arg(format!("profile.release.package.{package}.opt-level=0"));
    }
    command.current_dir(root());
    with_path(&mut command, &programs)?;
    step(&format!("check for {TRIPLE}"), command)
}
