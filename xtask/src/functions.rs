//! The functions as Lambda gets them: building, measuring, checking their template, running them.

use crate::tools::{self, Environment};
use crate::{Outcome, cargo, root, run, say, step, target};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A zip may have this many bytes: what Lambda loads before a function starts.
const MAX_ZIP_BYTES: u64 = 5_000_000;

/// Where `cargo lambda build` puts what it builds for arm64.
fn built() -> PathBuf {
    target().join("lambda/arm64")
}

/// One build for all functions, for the processor that they run on.
pub fn build() -> Outcome {
    tools::require_compiler()?;
    // The processor of the functions on AWS.
    tools::require_target("aarch64-unknown-linux-gnu")?;
    let mut command = cargo(&["lambda", "build", "--release", "--arm64", "--locked", "--lambda-dir"]);
    command.arg(built());
    for name in names()? {
        command.args(["--bin", &name]);
    }
    // Its own option for this does not work with this cargo.
    command.env("CARGO_TARGET_DIR", target());
    with_path(&mut command, &Environment::Sam.require()?)?;
    step("build for arm64", command)
}

/// What a user does first. What was built before is not built again.
pub fn sam_build() -> Outcome {
    let programs = Environment::Sam.require()?;
    let mut command = Command::new(programs.join("sam"));
    command
        .arg("build")
        .current_dir(root())
        .env("SAM_CLI_TELEMETRY", "0")
        .env("AWS_DEFAULT_REGION", "us-east-1");
    command.env("CARGO_TARGET_DIR", target());
    with_path(&mut command, &programs)?;
    step("sam build", command)
}

/// Says how large each function is, and fails where one is too large.
pub fn size() -> Outcome {
    let python = Environment::Sam.require()?.join("python3");
    let mut too_large = Vec::new();
    say(&format!("{:<26}{:>12}{:>12}\n", "function", "bootstrap", "zip"));
    for name in names()? {
        let bootstrap = built().join(&name).join("bootstrap");
        let bytes =
            bootstrap.metadata().map_err(|_| format!("{name} is not built; run `cargo xtask build`"))?;
        let zip = built().join(&name).join("bootstrap.zip");
        if let Err(error) = fs::remove_file(&zip)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(format!("{} cannot be replaced: {error}", zip.display()));
        }
        let mut pack = Command::new(&python);
        pack.args(["-m", "zipfile", "-c"]).arg(&zip).arg(&bootstrap);
        run(pack)?;
        let zipped = zip.metadata().map_err(|error| format!("{}: {error}", zip.display()))?.len();
        say(&format!("{name:<26}{:>12}{:>12}\n", megabytes(bytes.len()), megabytes(zipped)));
        if zipped > MAX_ZIP_BYTES {
            too_large.push(name);
        }
    }
    match too_large.is_empty() {
        true => Ok(()),
        false => Err(format!("larger than {}: {}", megabytes(MAX_ZIP_BYTES), too_large.join(", "))),
    }
}

/// The templates, as far as they can be checked without deploying them.
pub fn lint() -> Outcome {
    let programs = Environment::Sam.require()?;
    let quiet = |program: &str| {
        let mut command = Command::new(programs.join(program));
        command.current_dir(root()).env("SAM_CLI_TELEMETRY", "0").env("AWS_DEFAULT_REGION", "us-east-1");
        command
    };
    let mut sam = quiet("sam");
    sam.args(["validate", "--lint"]);
    step("sam validate", sam)?;
    let mut cfn_lint = quiet("cfn-lint");
    cfn_lint.args(["template.yaml", "infra/console.yaml", "infra/observability.yaml"]);
    step("cfn-lint", cfn_lint)?;
    tools::require_node()?;
    let mut node = Command::new("node");
    node.args(["--test", "infra/console/"]).current_dir(root());
    step("CloudFront's functions", node)
}

/// Deploys the real template into an emulator and drives it.
pub fn emulate(options: &[String]) -> Outcome {
    tools::require_compiler()?;
    Environment::Sam.require()?;
    Environment::Emulator.require()?;
    step("build", cargo(&["build", "--workspace", "--bins", "--locked"]))?;
    let binaries = target().join("debug");
    let mut command = Command::new(binaries.join("emulate"));
    command.arg(root()).arg(&binaries).arg(tools::folder()).arg(target().join("emulate")).args(options);
    step("emulate", command)
}

/// Every function, by its file.
fn names() -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for group in entries(&root().join("functions"))? {
        for file in entries(&group.join("src/bin"))? {
            names.extend(file.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let read = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    read.map_err(|error| format!("{} cannot be read: {error}", folder.display()))
}

/// cargo finds `cargo-lambda`, and that finds zig, by the path.
pub fn with_path(command: &mut Command, programs: &Path) -> Outcome {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(all).map_err(|error| error.to_string())?);
    Ok(())
}

/// For people.
pub fn megabytes(bytes: u64) -> String {
    format!("{}.{:02} MB", bytes / 1_000_000, bytes % 1_000_000 / 10_000)
}
