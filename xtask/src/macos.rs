//! `cargo xtask check-macos`: type-checks what developers run on a Mac. Nothing is run, and nothing is linked.

use crate::functions::with_path;
use crate::steps::step;
use crate::tools::{self, Environment};
use crate::{Outcome, root};
use std::process::Command;

const TRIPLE: &str = "aarch64-apple-darwin";
/// Written in C, and compiled by their build scripts. The result is thrown away, so it need not be fast.
const NOT_OPTIMISED: [&str; 3] = ["libsqlite3-sys", "zstd-sys", "aws-lc-sys"];

/// Checks `local` and `worker`, with warnings as errors. The C code of their dependencies is compiled with zig, which
/// brings the headers of macOS.
pub fn check() -> Outcome {
    let programs = Environment::Sam.require()?;
    tools::require_target(TRIPLE)?;
    let mut command = Command::new(programs.join("cargo-zigbuild"));
    // With the release profile, since cargo would otherwise wait for a debug build that runs beside this one.
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
    for package in NOT_OPTIMISED {
        command.arg("--config").arg(format!("profile.release.package.{package}.opt-level=0"));
    }
    command.current_dir(root());
    with_path(&mut command, &programs)?;
    step(&format!("check for {TRIPLE}"), command)
}
