//! What must be on the machine, and how it gets there.

use std::process::{Command, Stdio};

/// SQLite and zstd are compiled from C.
pub fn require_compiler() -> Result<(), String> {
    if works("cc") {
        return Ok(());
    }
    let installed =
        works("apt-get") && apt_get(&["update"]) && apt_get(&["install", "--yes", "gcc", "libc6-dev"]);
    if installed && works("cc") {
        return Ok(());
    }
    Err("a C compiler is missing (SQLite is built with it); install gcc or clang and try again".into())
}

fn works(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn apt_get(arguments: &[&str]) -> bool {
    Command::new("apt-get").args(arguments).status().is_ok_and(|status| status.success())
}
