//! Builds the worker for sandboxes: one static binary per architecture.

use crate::functions::{megabytes, with_path};
use crate::steps::step;
use crate::tools::{self, Environment};
use crate::{Outcome, cargo, print, root, target};
use std::fs;
use std::path::{Path, PathBuf};

/// Static, because it must run in any image.
pub const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// Maximum size. The worker is uploaded to every new sandbox.
const MAX_BYTES: u64 = 12_000_000;

/// A part of the scripted agent, which is for demos and tests. `sunaba` contains this text as it is; a test checks that.
const SCRIPT: &str = "worker/scripted-agent/scripts/hello.jsonl";

/// Builds the worker for these targets and prints the sizes. Fails if one is too large or contains the scripted agent.
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
        let program = read(&built(triple))?;
        let bytes = program.len() as u64;
        print(&format!("{:<42}{:>12}\n", format!("sunaba-worker {triple}"), megabytes(bytes)));
        if contains(&program, &read(&root().join(SCRIPT))?) {
            return Err(format!(
                "sunaba-worker for {triple} contains {SCRIPT}: only `sunaba` has the scripted agent"
            ));
        }
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

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn contains(program: &[u8], text: &[u8]) -> bool {
    program.windows(text.len()).any(|part| part[0] == text[0] && part == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_is_found_inside_of_a_program() {
        let script = read(&root().join(SCRIPT)).unwrap();
        assert!(!script.is_empty());
        assert!(contains(&[&b"\0\0"[..], &script, &b"\0"[..]].concat(), &script));
        assert!(!contains(&script[1..], &script) && !contains(b"", &script));
    }
}
