//! `cargo xtask emulate`: deploys the real template and functions into an AWS emulator and tests them with real clients.
//!
//! `infra/emulator/README.md` lists the differences between the emulator and AWS.

mod account;
mod emulator;
mod events;
mod messages;
mod plane;
mod report;
mod scenario;
mod schedules;
mod sessions;
mod stack;
mod tickets;
mod watch;
mod watched;

use account::Account;
use anyhow::{Context, bail};
use emulator::Emulator;
use plane::Plane;
use report::Report;
use stack::Stack;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
Deploys template.yaml into an AWS emulator on this machine and tests it with real clients.

  cargo xtask emulate           deploy, test, report
  cargo xtask emulate --keep    deploy, print the addresses, and run until Ctrl-C
  cargo xtask emulate --watch   run the functions with `cargo lambda watch` instead, and call one of each group
";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::print_error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Paths that xtask passes as arguments.
#[derive(Debug)]
struct Paths {
    /// The repository.
    root: PathBuf,
    /// Programs that were built, including the functions.
    binaries: PathBuf,
    /// Python environments with SAM and the emulator.
    tools: PathBuf,
    /// Logs and temporary files.
    work: PathBuf,
}

async fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [root, binaries, tools, work, options @ ..] = arguments else {
        bail!("arguments are missing; run `cargo xtask emulate`");
    };
    let paths =
        Paths { root: root.into(), binaries: binaries.into(), tools: tools.into(), work: work.into() };
    let mut report = Report::new();
    let keep = match options {
        [] => false,
        [option] if option == "--keep" => true,
        [option] if option == "--watch" => return watch::run(&mut report, &paths).await,
        [option] if option == "--help" || option == "-h" => {
            report::print(HELP);
            return Ok(());
        }
        _ => bail!("{HELP}"),
    };
    let emulator = report.step("emulator starts", Emulator::start(&paths)).await?;
    let account = Account::new(&paths, &emulator.url);
    let daytona = tickets::daytona().await;
    let configured = tickets::configure(&account, &paths, &daytona);
    let mut parameters = report.step("API key of Daytona is stored", configured).await?;
    parameters.extend(report.step("keys and operators are stored", plane::create_keys(&account)).await?);
    parameters.push(schedules::IDLE_THRESHOLD.to_owned());
    let stack = Stack::prepare(&paths, parameters).context("cannot prepare the template")?;
    report.step("sam deploys the template", stack.deploy(&account)).await?;
    let plane = report.step("stack outputs have the addresses", Plane::find(&account)).await?;
    if keep {
        report::print(&format!("\n{}\n\nPress Ctrl-C to stop.\n", plane.describe()));
        tokio::signal::ctrl_c().await?;
        return Ok(());
    }
    let tested = scenario::run(&mut report, &account, &plane, &daytona, stack).await;
    tested.map_err(|error| emulator.explain(error))?;
    report.finish();
    Ok(())
}
