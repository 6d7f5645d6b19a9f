//! The console: types, checks, build, and end-to-end tests in a browser.

use crate::steps::step;
use crate::{Outcome, cargo, print, root, target, tools};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

fn folder() -> PathBuf {
    root().join("web")
}

/// Generates the TypeScript types of the contract.
pub fn contract() -> Outcome {
    tools::require_compiler()?;
    // Built with the features of the whole workspace; other features would recompile dozens of crates.
    let build = cargo(&["build", "--locked", "--workspace", "--example", "typescript"]);
    step("build the TypeScript generator", build)?;
    let mut generator = Command::new(target().join("debug/examples/typescript"));
    let output =
        generator.stderr(Stdio::inherit()).output().map_err(|error| format!("typescript: {error}"))?;
    if !output.status.success() {
        return Err("cannot generate TypeScript from the contract".into());
    }
    let file = folder().join("src/api/contract.ts");
    // Not written if unchanged, because a newer file would trigger a build of the console.
    if !fs::read(&file).is_ok_and(|current| current == output.stdout) {
        fs::write(&file, output.stdout)
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    print(&format!("{} is up to date\n", file.display()));
    Ok(())
}

/// Types, lints and unit tests.
pub fn check() -> Outcome {
    install()?;
    step("check the console", npm(&["run", "check"]))
}

/// Checks, tests and builds the console, and checks the size of its first load.
pub fn all() -> Outcome {
    check()?;
    build()?;
    step("check the size of the console", npm(&["run", "size"]))
}

/// Builds the console without tests, if its sources are newer than the build.
pub fn build_if_outdated() -> Outcome {
    if is_current(&folder())? {
        return Ok(());
    }
    print("The console is missing or older than its sources. Building it; the first time takes a minute.\n");
    install()?;
    build()
}

/// Runs the end-to-end tests in Chromium, against a debug build of `sunaba`.
pub fn e2e(options: &[String]) -> Outcome {
    tools::require_compiler()?;
    tools::require_chromium()?;
    build_if_outdated()?;
    install()?;
    step("build for the end-to-end tests", cargo(&["build", "--workspace", "--all-targets", "--locked"]))?;
    let mut command = npm(&["run", "e2e", "--"]);
    command.args(options).env("SUNABA_BIN", target().join("debug/sunaba"));
    step("end-to-end tests", command)
}

fn build() -> Outcome {
    step("build the console", npm(&["run", "build"]))
}

fn npm(arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(folder());
    command
}

/// Installs the packages of the lock file, unless they are installed.
fn install() -> Outcome {
    tools::require_npm()?;
    let lock = folder().join("package-lock.json");
    let expected =
        fs::read_to_string(&lock).map_err(|error| format!("cannot read {}: {error}", lock.display()))?;
    // Written last, so that an interrupted installation is repeated.
    let marker = folder().join("node_modules/.made-from");
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == expected) {
        return Ok(());
    }
    let install = npm(&["ci", "--no-audit", "--no-fund"]);
    step("install packages of the console", install)?;
    fs::write(&marker, expected).map_err(|error| format!("cannot write {}: {error}", marker.display()))
}

/// Whether the build is newer than all of its sources.
fn is_current(web: &Path) -> Result<bool, String> {
    let Ok(built) = web.join("dist/index.html").metadata().and_then(|file| file.modified()) else {
        return Ok(false);
    };
    let sources = [
        "src",
        "public",
        "index.html",
        "package.json",
        "package-lock.json",
        "tsconfig.json",
        "vite.config.ts",
    ];
    for path in sources.iter().map(|name| web.join(name)).filter(|path| path.exists()) {
        if newest(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))? > built {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The time of the last change in a folder.
fn newest(path: &Path) -> std::io::Result<SystemTime> {
    let mut newest = path.metadata()?.modified()?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            newest = newest.max(self::newest(&entry?.path())?);
        }
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::Duration;

    /// A temporary folder with a console that was built at a given time.
    fn web(name: &str, built_at: Option<u64>) -> PathBuf {
        let web = std::env::temp_dir().join(format!("sunaba-xtask-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&web));
        fs::create_dir_all(web.join("src/pages")).unwrap();
        fs::create_dir_all(web.join("dist")).unwrap();
        if let Some(secs) = built_at {
            touch(&web.join("dist/index.html"), secs);
        }
        web
    }

    fn touch(path: &Path, secs: u64) {
        let file = if path.is_dir() { File::open(path) } else { File::create(path) };
        file.unwrap().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(secs)).unwrap();
    }

    #[test]
    fn build_is_outdated_if_a_source_is_newer() {
        let missing = web("missing", None);
        assert_eq!(is_current(&missing), Ok(false));
        let built = web("built", Some(2_000));
        for folder in ["src/pages", "src"] {
            touch(&built.join("src/pages/command.tsx"), 1_000);
            touch(&built.join(folder), 1_000);
        }
        touch(&built.join("package-lock.json"), 1_000);
        assert_eq!(is_current(&built), Ok(true));
        touch(&built.join("src/pages/command.tsx"), 3_000);
        assert_eq!(is_current(&built), Ok(false), "a page is newer");
        touch(&built.join("src/pages/command.tsx"), 1_000);
        touch(&built.join("package-lock.json"), 3_000);
        assert_eq!(is_current(&built), Ok(false), "the lock file is newer");
        for folder in [missing, built] {
            fs::remove_dir_all(folder).unwrap();
        }
    }
}
