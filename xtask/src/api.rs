//! Tests of the HTTP API from its document: schemathesis generates requests from `docs/openapi.json`, sends them to a
//! local plane, and compares the answers with the document.

use crate::steps::{run, step, timed};
use crate::tools::{self, Environment};
use crate::{Outcome, cargo, root, target};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

const TOKEN: &str = "operator-token-of-the-api-tests";

/// Cases per operation and phase. With 50 operations, the sum is well above 2,000.
const EXAMPLES: &str = "25";

const SEED: &str = "17";

/// All checks but one: that valid requests are accepted. What is valid depends on the state, such as a task that must
/// exist before another can depend on it.
const EXCLUDED_CHECKS: &str = "positive_data_acceptance";

pub fn test(options: &[String]) -> Outcome {
    tools::require_compiler()?;
    let programs = Environment::Api.require()?;
    step("build for the API tests", cargo(&["build", "--workspace", "--bin", "sunaba", "--locked"]))?;
    timed("API tests (schemathesis)", || {
        let plane = Plane::start()?;
        let mut command = Command::new(programs.join("schemathesis"));
        command
            .args(["run", &format!("{}/api/v1/openapi.json", plane.url)])
            .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
            .args(["--exclude-checks", EXCLUDED_CHECKS, "--max-examples", EXAMPLES, "--seed", SEED])
            // One worker: the library that generates data is not safe for threads, and a run can be repeated.
            .args(["--workers", "1", "--phases", "coverage,fuzzing", "--continue-on-failure", "--no-color"])
            .args(options)
            .env("SCHEMATHESIS_HOOKS", "hooks")
            .env("PYTHONPATH", root().join("tests/api"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("SUNABA_URL", &plane.url)
            .env("SUNABA_TOKEN", TOKEN)
            .current_dir(&plane.folder);
        run(command)
    })
}

/// A local plane with data of its own. It is killed when dropped.
struct Plane {
    process: Child,
    url: String,
    folder: PathBuf,
    /// Kept open: writing to a closed standard output could end the process.
    output: BufReader<ChildStdout>,
}

impl Plane {
    fn start() -> Result<Self, String> {
        let folder = target().join("api-tests");
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let log = fs::File::create(folder.join("plane.log")).map_err(|error| error.to_string())?;
        let mut command = Command::new(target().join("debug/sunaba"));
        command
            .args(["dev", "--port", "0", "--data"])
            .arg(folder.join("data"))
            .args(["--ticket-human-review", "true"])
            // A provider that nothing listens for: generated tasks must not start processes on this machine.
            .args(["--provider", "daytona", "--daytona-api-key", "none"])
            .args(["--daytona-api-url", "http://127.0.0.1:9", "--worker-source", "image:/worker"])
            .env("SUNABA_TOKEN", TOKEN)
            .env_remove("SUNABA_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut process = command.spawn().map_err(|error| format!("cannot start sunaba: {error}"))?;
        let output = process.stdout.take().ok_or("sunaba has no standard output")?;
        let mut plane = Self { process, url: String::new(), folder, output: BufReader::new(output) };
        // The first line ends in the link to the console.
        let mut line = String::new();
        plane.output.read_line(&mut line).map_err(|error| error.to_string())?;
        let link = line.split_whitespace().last().and_then(|link| link.split("/?").next());
        plane.url = link.unwrap_or_default().to_owned();
        match plane.url.starts_with("http") {
            true => Ok(plane),
            false => Err(format!("sunaba did not start: see {}/plane.log", plane.folder.display())),
        }
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
