//! Measures a release build of the plane, next to a floor in the same run: the same HTTP server with an empty
//! handler. The load comes from this process, on the same cores: read the ratios before the numbers.

mod driving;
mod floor;
mod load;
mod report;
mod scenarios;
mod start;
mod steering;
mod tickets;
mod watcher;

use futures_util::FutureExt;
use kit::process::{Process, Recipe};
use report::Report;
use scenarios::Plane;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tempfile::TempDir;
use terminal::print_error;
use tokio::time::timeout;

const TOKEN: &str = "operator-token-of-the-bench";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == floor::FLAG) {
        floor::serve().await;
        return ExitCode::SUCCESS;
    }
    // Any of the names below measures only those.
    let names: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| *wanted == name);
    let scale = if arguments.iter().any(|argument| argument == "--quick") { 5 } else { 1 };
    let mut report = Report::default();
    let mut run = Run::default();
    if arguments.iter().any(|argument| argument == driving::FLAG) {
        let (_data, _process, plane) = plane().await;
        run.scenario("worker", driving::measure(&mut report, &plane, scale)).await;
        report.print();
        return run.end();
    }
    let floor = floor::Floor::start().await;
    scenarios::floor(&mut report, &floor.address, scale).await;
    drop(floor);

    let (data, _process, plane) = plane().await;
    scenarios::memory(&mut report, &plane, "at start");
    if wanted("start") {
        let (function, variables) = (beside("sunaba-functions"), data.path().join("data/lambda.env"));
        run.scenario("start", start::cold(&mut report, &function, &variables, scale)).await;
    }
    if wanted("posts") {
        run.scenario("posts", scenarios::single_posts(&mut report, &plane, scale)).await;
    }
    if wanted("batches") {
        run.scenario("batches", scenarios::batches(&mut report, &plane, scale)).await;
    }
    if wanted("sockets") {
        run.scenario("sockets", scenarios::post_to_socket(&mut report, &plane, scale)).await;
    }
    if wanted("messages") {
        run.scenario("messages", steering::post_to_pull(&mut report, &plane, scale)).await;
    }
    if wanted("tickets") {
        run.scenario("tickets", tickets::post_to_agent(&mut report, &plane, data.path(), scale)).await;
    }
    if wanted("pages") {
        run.scenario("pages", scenarios::pages(&mut report, &plane, scale)).await;
    }
    scenarios::memory(&mut report, &plane, "after all of this");
    report.print();
    if wanted("worker") {
        run.scenario("worker", async { driving::measure_offline(&arguments) }).await;
    }
    run.end()
}

/// A scenario that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// The scenarios so far. One that fails does not keep the others from being measured.
#[derive(Debug, Default)]
struct Run {
    failed: Vec<&'static str>,
}

impl Run {
    /// Runs a scenario. Why it panicked is on standard error already; what it measured before that is in the report.
    async fn scenario(&mut self, name: &'static str, work: impl Future<Output = ()>) {
        match timeout(LONGEST, AssertUnwindSafe(work).catch_unwind()).await {
            Ok(Ok(())) => return,
            Ok(Err(_panic)) => print_error(&format!("bench: the scenario {name} failed")),
            Err(_) => print_error(&format!("bench: the scenario {name} did not end within {LONGEST:?}")),
        }
        self.failed.push(name);
    }

    fn end(&self) -> ExitCode {
        if self.failed.is_empty() {
            return ExitCode::SUCCESS;
        }
        print_error(&format!("bench: failed: {}", self.failed.join(", ")));
        ExitCode::FAILURE
    }
}

/// A plane of its own, in a folder of its own.
async fn plane() -> (TempDir, Process, Plane) {
    let data = TempDir::new().expect("a temporary folder");
    let process = Process::start(&Recipe {
        binary: beside("sunaba"),
        data: data.path().join("data"),
        port: 0,
        token: TOKEN.to_owned(),
        log: None,
        arguments: ["--events-per-minute", "100000000", "--serve-aws", "0"].map(str::to_owned).into(),
    })
    .await;
    let plane = Plane {
        address: process.url.trim_start_matches("http://").to_owned(),
        token: TOKEN.to_owned(),
        process: process.id(),
    };
    (data, process, plane)
}

/// A binary that was built with this one.
fn beside(name: &str) -> PathBuf {
    let here = std::env::current_exe().expect("this process has a binary");
    here.with_file_name(name)
}
