//! `cargo xtask emulate`: the real template, with real bootstraps, in an AWS emulator on this machine, driven by real
//! clients.
//!
//! Where the emulator differs from AWS is written in `infra/emulator/README.md`.

mod account;
mod emulator;
mod messages;
mod plane;
mod report;
mod scenario;
mod sessions;
mod stack;
mod tickets;
mod watch;

use account::Account;
use anyhow::{Context, bail};
use emulator::Emulator;
use plane::Plane;
use report::Report;
use stack::Stack;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
Deploys template.yaml into an AWS emulator on this machine and drives it with real clients.

  cargo xtask emulate           everything: deploy, drive, report
  cargo xtask emulate --keep    deploy, say where the plane is, and leave it running until Ctrl-C
  cargo xtask emulate --watch   instead: run the functions with `cargo lambda watch`, and post an event through them
";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Where things are: said by xtask, which has put them there.
#[derive(Debug)]
struct Places {
    /// The project.
    root: PathBuf,
    /// Where the program of all functions was built.
    binaries: PathBuf,
    /// Python environments with SAM and the emulator.
    tools: PathBuf,
    /// For everything that is made on the way.
    work: PathBuf,
}

async fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [root, binaries, tools, work, options @ ..] = arguments else {
        bail!("this is started by `cargo xtask emulate`");
    };
    let places =
        Places { root: root.into(), binaries: binaries.into(), tools: tools.into(), work: work.into() };
    let mut report = Report::new();
    let keep = match options {
        [] => false,
        [option] if option == "--keep" => true,
        [option] if option == "--watch" => return watch::run(&mut report, &places).await,
        [option] if option == "--help" || option == "-h" => {
            report::say(HELP);
            return Ok(());
        }
        _ => bail!("{HELP}"),
    };
    let emulator = report.step("the emulator starts", Emulator::start(&places)).await?;
    let account = Account::new(&places, &emulator.url);
    let daytona = tickets::daytona().await;
    let introduced = tickets::introduce(&account, &places, &daytona);
    let parameters = report.step("the account has the key of a Daytona", introduced).await?;
    let stack = Stack::prepare(&places, parameters).context("cannot prepare the template")?;
    report.step("sam deploys the template", stack.deploy(&account)).await?;
    let plane = report.step("the stack says where the plane is", Plane::find(&account)).await?;
    if keep {
        report::say(&format!("\n{}\n\nCtrl-C ends it.\n", plane.describe()));
        tokio::signal::ctrl_c().await?;
        return Ok(());
    }
    let driven = scenario::run(&mut report, &account, &plane, &daytona, stack).await;
    driven.map_err(|error| emulator.explain(error))?;
    report.finish();
    Ok(())
}
