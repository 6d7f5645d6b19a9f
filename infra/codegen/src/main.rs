//! Writes the generated files of the repository whose root is the first argument: `cargo xtask gen`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            report(&format!("codegen: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn write() -> Result<(), String> {
    let root = std::env::args_os().nth(1).map(PathBuf::from);
    let root = root.ok_or("the repository root is missing; run `cargo xtask gen`")?;
    for file in codegen::all(&root)? {
        let path = root.join(file.path);
        if file.is_current() {
            report(&format!("{} is up to date", file.path));
            continue;
        }
        std::fs::write(&path, file.expected)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        report(&format!("wrote {}", file.path));
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "this is a command-line program")]
fn report(text: &str) {
    eprintln!("{text}");
}
