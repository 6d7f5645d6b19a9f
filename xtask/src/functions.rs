//! Lambda functions: build, size check, template lint, emulator.

use crate::steps::{run, step, timed};
use crate::tools::{self, Environment};
use crate::{Outcome, cargo, print, root, target};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum size of the zip. Lambda loads it before a cold start. The aim is 6 MB.
const MAX_ZIP_BYTES: u64 = 6_500_000;

/// Runs `sam build`, as for a deployment. All functions share one program, which SAM builds once.
pub fn build() -> Outcome {
    tools::require_compiler()?;
    // The architecture of the functions on AWS.
    tools::require_target("aarch64-unknown-linux-gnu")?;
    let programs = Environment::Sam.require()?;
    let mut command = sam(&programs);
    command.arg("build").env("CARGO_TARGET_DIR", target());
    with_path(&mut command, &programs)?;
    step("sam build (release, arm64)", command)?;
    timed("size of the functions", || size(&programs))
}

/// Prints the size of the program. Fails if it is too large or was built more than once.
fn size(programs: &Path) -> Outcome {
    let built: Vec<PathBuf> = entries(&root().join(".aws-sam/build"))?
        .into_iter()
        .map(|folder| folder.join("bootstrap"))
        .filter(|bootstrap| bootstrap.exists())
        .collect();
    let [bootstrap] = built.as_slice() else {
        return Err(format!("SAM built {} programs instead of one for all functions", built.len()));
    };
    let zip = target().join("bootstrap.zip");
    if let Err(error) = fs::remove_file(&zip)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(format!("cannot replace {}: {error}", zip.display()));
    }
    let mut pack = Command::new(programs.join("python3"));
    pack.args(["-m", "zipfile", "-c"]).arg(&zip).arg(bootstrap);
    run(pack)?;
    let bytes = |path: &Path| path.metadata().map(|file| file.len()).map_err(|error| error.to_string());
    let (unpacked, zipped) = (bytes(bootstrap)?, bytes(&zip)?);
    print(&format!("Functions: {}, zip: {}.\n", megabytes(unpacked), megabytes(zipped)));
    match zipped > MAX_ZIP_BYTES {
        true => Err(format!("the zip is larger than {}", megabytes(MAX_ZIP_BYTES))),
        false => Ok(()),
    }
}

fn sam(programs: &Path) -> Command {
    tool(programs, "sam")
}

fn tool(programs: &Path, program: &str) -> Command {
    let mut command = Command::new(programs.join(program));
    command.current_dir(root()).env("SAM_CLI_TELEMETRY", "0").env("AWS_DEFAULT_REGION", "us-east-1");
    command
}

/// Checks the templates without deploying them.
pub fn lint() -> Outcome {
    let programs = Environment::Sam.require()?;
    let mut validate = sam(&programs);
    validate.args(["validate", "--lint"]);
    step("sam validate", validate)?;
    let mut cfn_lint = tool(&programs, "cfn-lint");
    cfn_lint.args(["infra/console.yaml", "infra/observability.yaml"]);
    step("cfn-lint", cfn_lint)?;
    let mut count = tool(&programs, "python3");
    count.args(["infra/count-resources.py", "template.yaml"]);
    step("stack resource count", count)?;
    tools::require_node()?;
    let mut node = Command::new("node");
    node.args(["--test", "infra/console/"]).current_dir(root());
    step("CloudFront functions", node)
}

/// Deploys the real template into an AWS emulator and tests it.
pub fn emulate(options: &[String]) -> Outcome {
    tools::require_compiler()?;
    Environment::Sam.require()?;
    Environment::Emulator.require()?;
    step("build for the emulator", cargo(&["build", "--workspace", "--all-targets", "--locked"]))?;
    let binaries = target().join("debug");
    let mut command = Command::new(binaries.join("emulate"));
    command.arg(root()).arg(&binaries).arg(tools::folder()).arg(target().join("emulate")).args(options);
    step(format!("emulate {}", options.join(" ")).trim_end(), command)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let read = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    read.map_err(|error| format!("cannot read {}: {error}", folder.display()))
}

/// Puts `programs` first on `PATH`: cargo finds `cargo-lambda` there, and that finds zig.
pub fn with_path(command: &mut Command, programs: &Path) -> Outcome {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(all).map_err(|error| error.to_string())?);
    Ok(())
}

pub fn megabytes(bytes: u64) -> String {
    format!("{}.{:02} MB", bytes / 1_000_000, bytes % 1_000_000 / 10_000)
}
