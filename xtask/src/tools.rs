//! What must be on the machine, and how it gets there.

use crate::steps::{run, timed};
use crate::{Outcome, target};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// SQLite, zstd and aws-lc are compiled from C.
pub fn require_compiler() -> Outcome {
    require("cc", &["gcc", "libc6-dev"], "a C compiler (SQLite is built with it)")
}

/// The console's rewriting at CloudFront is tested by running it.
pub fn require_node() -> Outcome {
    require("node", &["nodejs"], "Node.js (CloudFront's functions are tested with it)")
}

/// The console is built and tested with it, in the versions that its tools ask for.
pub fn require_npm() -> Outcome {
    require("node", &["nodejs"], "Node.js (the console is built with it)")?;
    require("npm", &["npm"], "npm (the console is built with it)")
}

/// The console is driven in it. Playwright's own is a download of 170 MB that not every machine may make.
pub fn require_chromium() -> Outcome {
    require("chromium", &["chromium"], "Chromium (the console is tested in it)")
}

/// A Python environment: SAM, cargo-lambda and cfn-lint in one, the emulator in another, because their pins clash.
#[derive(Debug, Clone, Copy)]
pub enum Environment {
    /// `sam`, `cargo-lambda` (with zig), `cargo-zigbuild` and `cfn-lint`.
    Sam,
    /// `ministack`.
    Emulator,
}

impl Environment {
    fn name(self) -> &'static str {
        match self {
            Self::Sam => "sam",
            Self::Emulator => "ministack",
        }
    }

    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Sam => {
                &["aws-sam-cli==1.170.0", "cargo-lambda==1.9.2", "cargo-zigbuild==0.24.0", "cfn-lint==1.58.0"]
            }
            Self::Emulator => &["ministack[full]==1.5.33"],
        }
    }

    /// Makes it, if it is not there in these versions. Returns the folder with its programs.
    pub fn require(self) -> Result<PathBuf, String> {
        let folder = cached(self.name(), &self.packages().join("\n"), |folder| {
            require("python3", &["python3", "python3-venv"], "Python 3 with venv")?;
            let make = || {
                let mut make = Command::new("python3");
                make.args(["-m", "venv"]).arg(folder);
                run(make)
            };
            // Debian keeps venv apart from Python.
            make().or_else(|_| {
                install(&["python3-venv"]);
                make()
            })?;
            let mut pip = Command::new(folder.join("bin/pip"));
            pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(self.packages());
            run(pip)
        })?;
        Ok(folder.join("bin"))
    }
}

/// A tool in these versions, made by `make` unless this machine has it already. It is kept outside of the project, so
/// that every clone finds it; `target/tools` has a link to it under its name.
fn cached(name: &str, versions: &str, make: impl FnOnce(&Path) -> Outcome) -> Result<PathBuf, String> {
    let version = format!("{name}-{:016x}", digest(versions));
    let kept = cache()?.join(&version);
    // Of two first runs at the same time the second waits, and finds what the first has made.
    let _lock = lock(&cache()?, &format!("{version}.lock"))?;
    // Written last: an installation that broke off is made again.
    let complete = kept.join("made-from");
    if !fs::read_to_string(&complete).is_ok_and(|from| from == versions) {
        timed(&format!("install {name}"), || {
            remove(&kept)?;
            fs::create_dir_all(&kept).map_err(|error| format!("{}: {error}", kept.display()))?;
            make(&kept)?;
            fs::write(&complete, versions).map_err(|error| format!("{}: {error}", complete.display()))
        })?;
    }
    let link = folder().join(name);
    if !fs::read_link(&link).is_ok_and(|to| to == kept) {
        remove(&link)?;
        fs::create_dir_all(folder())
            .and_then(|()| std::os::unix::fs::symlink(&kept, &link))
            .map_err(|error| format!("{}: {error}", link.display()))?;
    }
    Ok(kept)
}

/// Waits until no other process has the lock. It is given back when the file is closed.
fn lock(folder: &Path, name: &str) -> Result<File, String> {
    let path = folder.join(name);
    let locked = fs::create_dir_all(folder).and_then(|()| File::create(&path)).and_then(|file| {
        file.lock()?;
        Ok(file)
    });
    locked.map_err(|error| format!("{} cannot be locked: {error}", path.display()))
}

/// Where tools are kept: `SUNABA_TOOLS`, or a folder of the user's cache.
fn cache() -> Result<PathBuf, String> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("SUNABA_TOOLS")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("sunaba/tools")))
        .or_else(|| Some(variable("HOME")?.join(".cache/sunaba/tools")))
        .ok_or_else(|| "set SUNABA_TOOLS to a folder for tools: there is no HOME".to_owned())
}

/// FNV-1a: the same in every build of this program, unlike the standard library's hashes.
fn digest(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The agent that the worker is tested with, in the version whose protocol it speaks.
const CLAUDE: &str = "@anthropic-ai/claude-code@2.1.325";

/// Everything that tests need.
pub fn require_all() -> Outcome {
    require_compiler()?;
    require_claude()?;
    require_namespaces()
}

/// Installs Claude Code, if it is not there in this version.
fn require_claude() -> Outcome {
    cached("claude", CLAUDE, |folder| {
        require("npm", &["nodejs", "npm"], "npm (Claude Code is installed with it)")?;
        let advice = format!("`npm install {CLAUDE}` has to work here: the worker is tested with it");
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(folder).arg(CLAUDE);
        run(npm).map_err(|why| format!("{why}; {advice}"))?;
        let program = folder.join("node_modules/.bin/claude");
        if !works(&program) {
            // Where npm runs no scripts of packages, the program is still beside its place.
            let mut place = Command::new("node");
            place.arg("install.cjs").current_dir(folder.join("node_modules/@anthropic-ai/claude-code"));
            run(place).map_err(|why| format!("{why}; {advice}"))?;
        }
        match works(&program) {
            true => Ok(()),
            false => Err(format!("{} does not run on this machine; {advice}", program.display())),
        }
    })
    .map(drop)
}

/// Claude Code is tested where it can reach nothing but the test.
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
                "{why}; an agent is tested in a network namespace: install util-linux and iproute2, and run the \
                 tests as somebody who may make one (`unshare -rn ip link set lo up`)"
            )
        })
    })
}

/// Where this build finds its tools.
pub fn folder() -> PathBuf {
    target().join("tools")
}

/// A processor and a system that something is built for.
pub fn require_target(triple: &str) -> Outcome {
    let mut add = Command::new("rustup");
    add.args(["target", "add", triple]).stderr(Stdio::null());
    run(add).map_err(|why| format!("the Rust target {triple} is missing: {why}"))
}

fn remove(folder: &Path) -> Outcome {
    let removed = if folder.is_symlink() { fs::remove_file(folder) } else { fs::remove_dir_all(folder) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{} cannot be removed: {error}", folder.display()))
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
    Err(format!("{name} is missing; install {} and try again", packages.join(" ")))
}

/// Where there is apt-get and it may. Elsewhere whoever asked finds it still missing, and says so.
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
