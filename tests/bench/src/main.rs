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

use kit::process::{Process, Recipe};
use report::Report;
use scenarios::Plane;
use std::path::PathBuf;
use tempfile::TempDir;

const TOKEN: &str = "operator-token-of-the-bench";

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == floor::FLAG) {
        return floor::serve().await;
    }
    // Any of the names below measures only those.
    let names: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| *wanted == name);
    let scale = if arguments.iter().any(|argument| argument == "--quick") { 5 } else { 1 };
    let mut report = Report::default();
    if arguments.iter().any(|argument| argument == driving::FLAG) {
        let (_data, _process, plane) = plane().await;
        driving::measure(&mut report, &plane, scale).await;
        return report.print();
    }
    let floor = floor::Floor::start().await;
    scenarios::floor(&mut report, &floor.address, scale).await;
    drop(floor);

    let (data, _process, plane) = plane().await;
    scenarios::memory(&mut report, &plane, "at start");
    if wanted("start") {
        let variables = data.path().join("data/lambda.env");
        start::cold(&mut report, &beside("sunaba-functions"), &variables, scale).await;
    }
    if wanted("posts") {
        scenarios::single_posts(&mut report, &plane, scale).await;
    }
    if wanted("batches") {
        scenarios::batches(&mut report, &plane, scale).await;
    }
    if wanted("sockets") {
        scenarios::post_to_socket(&mut report, &plane, scale).await;
    }
    if wanted("messages") {
        steering::post_to_pull(&mut report, &plane, scale).await;
    }
    if wanted("tickets") {
        tickets::post_to_agent(&mut report, &plane, data.path(), scale).await;
    }
    if wanted("pages") {
        scenarios::pages(&mut report, &plane, scale).await;
    }
    scenarios::memory(&mut report, &plane, "after all of this");
    report.print();
    if wanted("worker") {
        driving::measure_offline(&arguments);
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
