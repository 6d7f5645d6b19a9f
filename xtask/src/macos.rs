//! `cargo xtask check-macos`: type-checks what developers run on a Mac. Nothing is run, and nothing is linked.

use crate::functions::with_path;
use crate::tools::{self, Environment};
use crate::{Outcome, root, step};
use std::process::Command;

const TRIPLE: &str = "aarch64-apple-darwin";
/// The workspace has these optimised, for the speed of its tests. Here the result is thrown away.
const NOT_OPTIMISED: [&str; 2] = ["libsqlite3-sys", "zstd-sys"];

/// Checks `local` and `worker`, with warnings as errors. The C code of their dependencies is compiled with zig, which
/// brings the headers of macOS.
pub fn check() -> Outcome {
    let programs = Environment::Sam.require()?;
    tools::require_target(TRIPLE)?;
    let mut command = Command::new(programs.join("cargo-zigbuild"));
    command.args(["check", "--locked", "--package", "local", "--package", "worker", "--target", TRIPLE]);
    for package in NOT_OPTIMISED {
        command.arg("--config").arg(format!("profile.dev.package.{package}.opt-level=0"));
    }
    command.current_dir(root());
    with_path(&mut command, &programs)?;
    step(&format!("check for {TRIPLE}"), command)
}
