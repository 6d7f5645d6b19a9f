//! What must be on the machine, and how it gets there. Whatever is not a compiler goes into `target/tools`.

use crate::{Outcome, run, say, target};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// SQLite, zstd and aws-lc are compiled from C.
pub fn require_compiler() -> Outcome {
    require("cc", &["gcc", "libc6-dev"], "a C compiler (SQLite is built with it)")
}

/// The console's rewriting at CloudFront is tested by running it.
pub fn require_node() -> Outcome {
    require("node", &["nodejs"], "Node.js (CloudFront's functions are tested with it)")
}

/// A Python environment: SAM, cargo-lambda and cfn-lint in one, the emulator in another, because their pins clash.
#[derive(Debug, Clone, Copy)]
pub enum Environment {
    /// `sam`, `cargo-lambda` (with zig) and `cfn-lint`.
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
            Self::Sam => &["aws-sam-cli==1.170.0", "cargo-lambda==1.9.2", "cfn-lint==1.58.0"],
            Self::Emulator => &["ministack[full]==1.5.33"],
        }
    }

    /// Makes it, if it is not there in these versions. Returns the folder with its programs.
    pub fn require(self) -> Result<PathBuf, String> {
        let (folder, wanted) = (folder().join(self.name()), self.packages().join("\n"));
        // Written last: an installation that broke off is made again.
        let made = folder.join("made-from");
        if fs::read_to_string(&made).is_ok_and(|from| from == wanted) {
            return Ok(folder.join("bin"));
        }
        require("python3", &["python3", "python3-venv"], "Python 3 with venv")?;
        say(&format!("== installing {}\n", self.packages().join(", ")));
        if let Err(error) = fs::remove_dir_all(&folder)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(format!("{} cannot be removed: {error}", folder.display()));
        }
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(&folder);
        if run(make).is_err() {
            // Debian keeps venv apart from Python.
            install(&["python3-venv"]);
            let mut again = Command::new("python3");
            again.args(["-m", "venv"]).arg(&folder);
            run(again)?;
        }
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(self.packages());
        run(pip)?;
        fs::write(&made, wanted).map_err(|error| format!("{} cannot be written: {error}", made.display()))?;
        Ok(folder.join("bin"))
    }
}

/// Where tools are.
pub fn folder() -> PathBuf {
    target().join("tools")
}

/// The processor of the functions on AWS.
pub fn require_arm() -> Outcome {
    let mut add = Command::new("rustup");
    add.args(["target", "add", "aarch64-unknown-linux-gnu"]).stderr(Stdio::null());
    run(add).map_err(|why| format!("the Rust target for arm64 is missing: {why}"))
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

fn works(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
