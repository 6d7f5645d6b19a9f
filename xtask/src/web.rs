//! The console: its types, its checks, its build, and driving it in a browser.

use crate::steps::step;
use crate::{Outcome, cargo, root, say, target, tools};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

fn folder() -> PathBuf {
    root().join("web")
}

/// Writes the contract as TypeScript.
pub fn contract() -> Outcome {
    tools::require_compiler()?;
    // With the features of the whole workspace: other features would compile dozens of crates again.
    let build = cargo(&["build", "--locked", "--workspace", "--example", "typescript"]);
    step("build what writes the contract", build)?;
    let mut generator = Command::new(target().join("debug/examples/typescript"));
    let made = generator.stderr(Stdio::inherit()).output().map_err(|error| format!("typescript: {error}"))?;
    if !made.status.success() {
        return Err("the contract cannot be written as TypeScript".into());
    }
    let file = folder().join("src/api/contract.ts");
    // Left alone where nothing changed: what is newer than the build is built again.
    if !fs::read(&file).is_ok_and(|kept| kept == made.stdout) {
        fs::write(&file, made.stdout)
            .map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    }
    say(&format!("{} is what the contract says.\n", file.display()));
    Ok(())
}

/// Types, lints and unit tests.
pub fn check() -> Outcome {
    install()?;
    step("check the console", npm(&["run", "check"]))
}

/// Checks, tests and builds it, and measures what a browser loads first.
pub fn all() -> Outcome {
    check()?;
    build()?;
    step("measure the console", npm(&["run", "size"]))
}

/// For whoever wants to see it: without its tests, and only where there is something new.
pub fn build_if_old() -> Outcome {
    if is_current(&folder())? {
        return Ok(());
    }
    say(
        "The console is not built, or older than its sources: building it, which takes a minute the first time.\n",
    );
    install()?;
    build()
}

/// Drives it in Chromium, against the program as the tests have it.
pub fn drive(options: &[String]) -> Outcome {
    tools::require_compiler()?;
    tools::require_chromium()?;
    build_if_old()?;
    install()?;
    step("build for the browser", cargo(&["build", "--workspace", "--all-targets", "--locked"]))?;
    let mut command = npm(&["run", "e2e", "--"]);
    command.args(options).env("SUNABA_BIN", target().join("debug/sunaba"));
    step("drive the console", command)
}

fn build() -> Outcome {
    step("build the console", npm(&["run", "build"]))
}

fn npm(arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(folder());
    command
}

/// Installs what the lock file says, if that is not there yet.
fn install() -> Outcome {
    tools::require_npm()?;
    let lock = folder().join("package-lock.json");
    let wanted =
        fs::read_to_string(&lock).map_err(|error| format!("{} cannot be read: {error}", lock.display()))?;
    // Written last: an installation that broke off is made again.
    let made = folder().join("node_modules/.made-from");
    if fs::read_to_string(&made).is_ok_and(|from| from == wanted) {
        return Ok(());
    }
    let install = npm(&["ci", "--no-audit", "--no-fund"]);
    step("install what the console is made of", install)?;
    fs::write(&made, wanted).map_err(|error| format!("{} cannot be written: {error}", made.display()))
}

/// Whether what was built is newer than all that it is built from.
fn is_current(web: &Path) -> Result<bool, String> {
    let Ok(built) = web.join("dist/index.html").metadata().and_then(|file| file.modified()) else {
        return Ok(false);
    };
    let from = [
        "src",
        "public",
        "index.html",
        "package.json",
        "package-lock.json",
        "tsconfig.json",
        "vite.config.ts",
    ];
    for path in from.iter().map(|name| web.join(name)).filter(|path| path.exists()) {
        if newest(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))? > built {
            return Ok(false);
        }
    }
    Ok(true)
}

/// When anything there was last changed.
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

    /// A folder of one test's own, with the console in it as it was built at a time.
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
    fn it_is_built_again_when_anything_that_it_is_made_of_is_newer() {
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
        assert_eq!(is_current(&built), Ok(false), "what it is made of is newer");
        for folder in [missing, built] {
            fs::remove_dir_all(folder).unwrap();
        }
    }
}
