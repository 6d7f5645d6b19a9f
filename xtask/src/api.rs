//! Tests of the HTTP API from its document: schemathesis generates requests from `docs/openapi.json`, sends them to a
//! local plane, and compares the responses with the document.

mod provider;

use crate::steps::{run, step, timed};
use crate::tools::{self, Environment};
use crate::{Outcome, cargo, print, root, target};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const TOKEN: &str = "operator-token-of-the-api-tests";

/// Cases per operation and phase.
const EXAMPLES: &str = "25";

/// Fewer cases are a failure: fewer operations, or another version of schemathesis, must not make the test weaker.
const MIN_CASES: u64 = 2_000;

/// How long the plane may take to print its first line.
const START_TIMEOUT: Duration = Duration::from_secs(60);

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
        let report = plane.folder.join("report.json");
        let mut command = Command::new(programs.join("schemathesis"));
        command
            .args(["run", &format!("{}/api/v1/openapi.json", plane.url)])
            .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
            .args(["--exclude-checks", EXCLUDED_CHECKS, "--max-examples", EXAMPLES, "--seed", SEED])
            // One worker: the library that generates data is not safe for threads, and a run can be repeated.
            .args(["--workers", "1", "--phases", "coverage,fuzzing", "--continue-on-failure", "--no-color"])
            .arg("--report-json-path")
            .arg(&report)
            .args(options)
            .env("SCHEMATHESIS_HOOKS", "hooks")
            .env("PYTHONPATH", root().join("tests/api"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("SUNABA_URL", &plane.url)
            .env("SUNABA_TOKEN", TOKEN)
            .current_dir(&plane.folder);
        run(command)?;
        let text = fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))?;
        let cases = checked_cases(&text)
            .ok_or_else(|| format!("{} has no number of cases; see `checked_cases`", report.display()))?;
        print(&format!("{cases} cases were sent and checked\n"));
        // Options may select one operation.
        match options.is_empty() && cases < MIN_CASES {
            false => Ok(()),
            true => {
                Err(format!("{cases} cases are fewer than {MIN_CASES}; raise EXAMPLES in xtask/src/api.rs"))
            }
        }
    })
}

/// The number of cases that were sent and checked, from the report of a run. It is not parsed as JSON, because this
/// program has no library for that.
fn checked_cases(report: &str) -> Option<u64> {
    let (_, counts) = report.split_once("\"test_cases\": {")?;
    let (counts, _) = counts.split_once('}')?;
    let count = |name: &str| -> Option<u64> {
        let (_, rest) = counts.split_once(&format!("\"{name}\":"))?;
        rest.split(',').next()?.trim().parse().ok()
    };
    count("generated")?.checked_sub(count("without_checks")? + count("errored")?)
}

/// A local plane with data of its own. It is killed when dropped.
struct Plane {
    process: Child,
    url: String,
    folder: PathBuf,
}

impl Plane {
    fn start() -> Result<Self, String> {
        let folder = target().join("api-tests");
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let log = fs::File::create(folder.join("plane.log")).map_err(|error| error.to_string())?;
        let provider = provider::start().map_err(|error| format!("cannot serve a provider: {error}"))?;
        let mut command = Command::new(target().join("debug/sunaba"));
        command
            .args(["dev", "--port", "0", "--data"])
            .arg(folder.join("data"))
            .args(["--ticket-human-review", "true"])
            .args(["--provider", "daytona", "--daytona-api-key", "none"])
            .args(["--daytona-api-url", &provider, "--worker-source", "image:/worker"])
            .env("SUNABA_TOKEN", TOKEN)
            .env_remove("SUNABA_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut process = command.spawn().map_err(|error| format!("cannot start sunaba: {error}"))?;
        let output = process.stdout.take().ok_or("sunaba has no standard output")?;
        let mut plane = Self { process, url: String::new(), folder };
        let line = first_line(output);
        // It ends in the link to the console.
        let link = line.split_whitespace().last().and_then(|link| link.split("/#").next());
        plane.url = link.unwrap_or_default().to_owned();
        match plane.url.starts_with("http") {
            true => Ok(plane),
            false => {
                let secs = START_TIMEOUT.as_secs();
                Err(format!("sunaba did not start within {secs} s: see {}/plane.log", plane.folder.display()))
            }
        }
    }
}

/// The first line that the plane prints, or an empty text if there is none within [`START_TIMEOUT`].
fn first_line(output: ChildStdout) -> String {
    let (sender, receiver) = mpsc::channel();
    // A read has no deadline, so a thread reads. It ends when the plane does.
    std::thread::spawn(move || {
        let (mut output, mut line) = (BufReader::new(output), String::new());
        // On an error the line is empty.
        drop(output.read_line(&mut line));
        drop(sender.send(line));
        // Reads on: writing to a closed standard output could end the plane.
        drop(io::copy(&mut output, &mut io::sink()));
    });
    receiver.recv_timeout(START_TIMEOUT).unwrap_or_default()
}

impl Drop for Plane {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_without_a_check_are_not_counted() {
        let report = r#"{
  "operations": {
    "total": 50,
    "errored": 7
  },
  "test_cases": {
    "generated": 2100,
    "with_failures": 1,
    "unique_failures": 1,
    "without_checks": 30,
    "errored": 4
  },
  "failures": []
}
"#;
        assert_eq!(checked_cases(report), Some(2066));
        assert_eq!(checked_cases("{}"), None);
    }
}
