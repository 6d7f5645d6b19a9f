//! Installs the tools that builds and tests need.

use crate::steps::{run, timed};
use crate::{Outcome, target};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// SQLite, zstd and aws-lc are compiled from C.
pub fn require_compiler() -> Outcome {
    require("cc", &["gcc", "libc6-dev"], "a C compiler (builds SQLite)")
}

/// Runs the tests of the CloudFront functions.
pub fn require_node() -> Outcome {
    require("node", &["nodejs"], "Node.js (runs the tests of the CloudFront functions)")
}

/// Builds and tests the console.
pub fn require_npm() -> Outcome {
    require("node", &["nodejs"], "Node.js (builds the console)")?;
    require("npm", &["npm"], "npm (builds the console)")
}

/// For the end-to-end tests of the console. Playwright's own build would be a download of 170 MB, which some machines do
/// not allow.
pub fn require_chromium() -> Outcome {
    require("chromium", &["chromium"], "Chromium (runs the end-to-end tests of the console)")
}

/// A Python environment. Each has its own dependencies, some of which conflict.
#[derive(Debug, Clone, Copy)]
pub enum Environment {
    /// `sam`, `cargo-lambda` (with zig), `cargo-zigbuild` and `cfn-lint`.
    Sam,
    /// `ministack`.
    Emulator,
    /// `schemathesis`.
    Api,
}

impl Environment {
    fn name(self) -> &'static str {
        match self {
            Self::Sam => "sam",
            Self::Emulator => "ministack",
            Self::Api => "schemathesis",
        }
    }

    /// Every package with its hashes, so that nothing else is installed and run, whatever the package index has.
    fn requirements(self) -> &'static str {
        match self {
            Self::Sam => include_str!("../requirements/sam.txt"),
            Self::Emulator => include_str!("../requirements/ministack.txt"),
            Self::Api => include_str!("../requirements/schemathesis.txt"),
        }
    }

    /// Installs the environment unless it exists in these versions. Returns the folder with its programs.
    pub fn require(self) -> Result<PathBuf, String> {
        let folder = cached(self.name(), self.requirements(), |folder| {
            require("python3", &["python3", "python3-venv"], "Python 3 with venv")?;
            let create = || {
                let mut create = Command::new("python3");
                create.args(["-m", "venv"]).arg(folder);
                run(create)
            };
            // Debian packages venv separately from Python.
            create().or_else(|_| {
                install(&["python3-venv"]);
                create()
            })?;
            let list = folder.join("requirements.txt");
            fs::write(&list, self.requirements()).map_err(|error| format!("{}: {error}", list.display()))?;
            let mut pip = Command::new(folder.join("bin/pip"));
            pip.args([
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--require-hashes",
                // The list is complete. Resolving dependencies could select a newer version, which has no hash in it.
                "--no-deps",
                "--requirement",
            ]);
            pip.arg(&list);
            run(pip)
        })?;
        Ok(folder.join("bin"))
    }
}

/// Installs a tool with `install` unless the cache contains it in these versions. The cache is outside of the repository,
/// so that all clones share it; `target/tools` contains a link by name.
fn cached(name: &str, versions: &str, install: impl FnOnce(&Path) -> Outcome) -> Result<PathBuf, String> {
    let version = format!("{name}-{:016x}", digest(versions));
    let cached = cache()?.join(&version);
    // Of two concurrent first runs, the second waits and uses the result of the first.
    let _lock = lock(&cache()?, &format!("{version}.lock"))?;
    // Written last, so that an interrupted installation is repeated.
    let marker = cached.join("made-from");
    if !fs::read_to_string(&marker).is_ok_and(|installed| installed == versions) {
        timed(&format!("install {name}"), || {
            remove(&cached)?;
            fs::create_dir_all(&cached).map_err(|error| format!("{}: {error}", cached.display()))?;
            install(&cached)?;
            fs::write(&marker, versions).map_err(|error| format!("{}: {error}", marker.display()))
        })?;
    }
    let link = folder().join(name);
    if !fs::read_link(&link).is_ok_and(|to| to == cached) {
        remove(&link)?;
        fs::create_dir_all(folder())
            .and_then(|()| std::os::unix::fs::symlink(&cached, &link))
            .map_err(|error| format!("{}: {error}", link.display()))?;
    }
    Ok(cached)
}

/// Waits for an exclusive lock on a file. The lock is released when the file is closed.
fn lock(folder: &Path, name: &str) -> Result<File, String> {
    let path = folder.join(name);
    let locked = fs::create_dir_all(folder).and_then(|()| File::create(&path)).and_then(|file| {
        file.lock()?;
        Ok(file)
    });
    locked.map_err(|error| format!("cannot lock {}: {error}", path.display()))
}

/// The cache of tools: `SUNABA_TOOLS`, or a folder in the user's cache.
fn cache() -> Result<PathBuf, String> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("SUNABA_TOOLS")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("sunaba/tools")))
        .or_else(|| Some(variable("HOME")?.join(".cache/sunaba/tools")))
        .ok_or_else(|| "HOME is not set; set SUNABA_TOOLS to a folder for tools".to_owned())
}

/// FNV-1a. Unlike the standard library's hashes, it is the same in every build.
fn digest(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The version of Claude Code that the worker is tested with.
const CLAUDE: &str = "@anthropic-ai/claude-code@2.1.325";

/// Installs everything that Rust tests need.
pub fn require_all() -> Outcome {
    require_compiler()?;
    require_claude()?;
    require_namespaces()?;
    require_bubblewrap()
}

/// Isolates agents, in tests too.
fn require_bubblewrap() -> Outcome {
    require("bwrap", &["bubblewrap"], "bubblewrap (isolates agents)")
}

fn require_claude() -> Outcome {
    cached("claude", CLAUDE, |folder| {
        require("npm", &["nodejs", "npm"], "npm (installs Claude Code)")?;
        let advice = format!("`npm install {CLAUDE}` must work: the tests of the worker need it");
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(folder).arg(CLAUDE);
        run(npm).map_err(|why| format!("{why}; {advice}"))?;
        let program = folder.join("node_modules/.bin/claude");
        if !works(&program) {
            // npm may be configured not to run install scripts.
            let mut script = Command::new("node");
            script.arg("install.cjs").current_dir(folder.join("node_modules/@anthropic-ai/claude-code"));
            run(script).map_err(|why| format!("{why}; {advice}"))?;
        }
        match works(&program) {
            true => Ok(()),
            false => Err(format!("{} does not run on this machine; {advice}", program.display())),
        }
    })
    .map(drop)
}

/// Tests of Claude Code run in a network namespace without access to the internet.
fn require_namespaces() -> Outcome {
    let works = || {
        let mut probe = Command::new("unshare");
        probe.args(["--map-root-user", "--net", "ip", "link", "set", "lo", "up"]).stderr(Stdio::null());
        run(probe)
    };
    works().or_else(|_| {
        install(&["util-linux", "iproute2"]);
        works().map_err(|why| {
            format!(
                "{why}; tests of agents run in a network namespace: install util-linux and iproute2, and run the \
                 tests as a user with permission to create one (`unshare -rn ip link set lo up`)"
            )
        })
    })
}

/// Links to the tools of this build.
pub fn folder() -> PathBuf {
    target().join("tools")
}

/// Installs a Rust target.
pub fn require_target(triple: &str) -> Outcome {
    let mut add = Command::new("rustup");
    add.args(["target", "add", triple]).stderr(Stdio::null());
    run(add).map_err(|why| format!("the Rust target {triple} is missing: {why}"))
}

fn remove(folder: &Path) -> Outcome {
    let removed = if folder.is_symlink() { fs::remove_file(folder) } else { fs::remove_dir_all(folder) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn require(program: &str, packages: &[&str], name: &str) -> Outcome {
    if works(program) {
        return Ok(());
    }
    install(packages);
    if works(program) {
        return Ok(());
    }
    Err(format!("{name} is missing; install {} and retry", packages.join(" ")))
}

/// Installs packages with apt-get if possible. The caller checks the result.
fn install(packages: &[&str]) {
    let apt_get =
        |arguments: &[&str]| Command::new("apt-get").args(arguments).status().is_ok_and(|s| s.success());
    if works("apt-get") && apt_get(&["update"]) {
        let arguments: Vec<&str> = ["install", "--yes"].into_iter().chain(packages.iter().copied()).collect();
        apt_get(&arguments);
    }
}

fn works(program: impl AsRef<OsStr>) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_python_package_has_a_version_and_hashes() {
        for environment in [Environment::Sam, Environment::Emulator, Environment::Api] {
            let lines = environment.requirements().lines().filter(|line| !line.starts_with('#'));
            let text = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
            assert!(text.contains(environment.name()) || text.contains("aws-sam-cli"), "{environment:?}");
            for package in text.lines() {
                let mut words = package.split_whitespace();
                let name = words.next().unwrap_or_default();
                assert!(name.contains("=="), "{environment:?}: {name} has no version");
                let hashes: Vec<&str> = words.collect();
                let is_hash =
                    |word: &&str| word.strip_prefix("--hash=sha256:").is_some_and(|hash| hash.len() == 64);
                assert!(!hashes.is_empty() && hashes.iter().all(is_hash), "{environment:?}: {name}");
            }
        }
    }
}
