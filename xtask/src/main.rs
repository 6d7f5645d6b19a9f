//! The project's own commands: `cargo xtask --help`.
//!
//! Only the standard library and `terminal`, which has nothing else, so that the first `cargo xtask` on a new machine starts within seconds.

mod functions;
mod macos;
mod tools;
mod web;
mod worker;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use terminal::print as say;

const HELP: &str = "\
The project's own commands.

  cargo xtask dev [options]     start the whole plane; options are those of `sunaba dev` (try --help). Builds the console
                                first where its sources are newer than it
  cargo xtask test              everything that CI runs: check, web, tests, e2e, emulate, build, size
  cargo xtask gen               write web/src/api/contract.ts, the contract as the console's TypeScript has it
  cargo xtask web               check, test and build the console into web/dist; fails if a browser has to load more than
                                350 KB (gzip) before it shows the first page
  cargo xtask e2e [options]     drive the console in Chromium against `sunaba dev`; options are those of Playwright
  cargo xtask tools             install what tests need into target/tools, and what that needs
  cargo xtask captures          take what the last tests recorded of Claude Code into tests/it/captures
  cargo xtask check             formatting, lints and documentation, without tests
  cargo xtask check-macos       type-check sunaba and sunaba-worker for macOS (arm64), without a Mac
  cargo xtask build             build every function for Lambda (release, arm64) into target/lambda/arm64
  cargo xtask worker            build sunaba-worker for sandboxes (release, static, x86-64 and arm64) into
                                target/<processor>-unknown-linux-musl/release; fails if one has more than 12 MB
  cargo xtask size              say how large they are; fails if a zip has more than 5 MB
  cargo xtask lint              check template.yaml and infra/ without deploying them
  cargo xtask emulate [option]  deploy the real template into an AWS emulator on this machine and drive it; --keep
                                leaves it running, --watch drives `cargo lambda watch` instead
  cargo xtask bench [options]   measure a release build (--quick for a shorter run; start, posts, batches, sockets,
                                messages, tickets, pages or worker to measure only those)
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let outcome = match command.as_str() {
        "dev" => dev(&rest),
        "test" => test(),
        "gen" => web::contract(),
        "web" => web::all(),
        "e2e" => web::drive(&rest),
        "tools" => tools::require_all(),
        "captures" => captures(),
        "check" => check(),
        "check-macos" => macos::check(),
        "build" => functions::build(),
        "worker" => worker::build(),
        "size" => functions::size(),
        "lint" => functions::lint(),
        "emulate" => functions::emulate(&rest),
        "bench" => bench(&rest),
        "" | "help" | "--help" | "-h" => {
            say(HELP);
            return ExitCode::SUCCESS;
        }
        other => Err(format!("there is no command {other:?}; `cargo xtask --help` lists them")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            terminal::print_error(&format!("xtask: {why}"));
            ExitCode::FAILURE
        }
    }
}

type Outcome = Result<(), String>;

fn dev(options: &[String]) -> Outcome {
    tools::require_compiler()?;
    // Before the program, which holds it.
    web::build_if_old()?;
    step("build", cargo(&["build", "--package", "local", "--bin", "sunaba"]))?;
    // In place of this process: whoever stops the one stops the other.
    let error = Command::new(target().join("debug/sunaba")).arg("dev").args(options).exec();
    Err(format!("sunaba cannot be started: {error}"))
}

fn check() -> Outcome {
    tools::require_compiler()?;
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    step(
        "clippy",
        cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"]),
    )?;
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    doc.env("RUSTDOCFLAGS", "--deny warnings");
    step("doc", doc)
}

fn test() -> Outcome {
    let begun = Instant::now();
    check()?;
    tools::require_all()?;
    // Before the tests: they are run with the program that holds it.
    web::all()?;
    step("test", cargo(&["test", "--workspace", "--locked"]))?;
    web::drive(&[])?;
    functions::lint()?;
    functions::emulate(&[])?;
    functions::emulate(&["--watch".into()])?;
    functions::build()?;
    functions::size()?;
    functions::sam_build()?;
    worker::build()?;
    say(&format!("Everything passed in {}.\n", words(begun.elapsed())));
    Ok(())
}

/// What the worker's tests read is what the real program said. Whoever changes its version looks at what changed here.
fn captures() -> Outcome {
    let (from, to) = (target().join("captures/claude"), root().join("tests/it/captures/claude"));
    let copied = std::fs::create_dir_all(&to).and_then(|()| {
        for file in std::fs::read_dir(&from)? {
            let file = file?;
            std::fs::copy(file.path(), to.join(file.file_name()))?;
        }
        Ok(())
    });
    copied.map_err(|error| {
        format!("there is nothing to take from {}: {error}; run the tests first", from.display())
    })
}

fn bench(options: &[String]) -> Outcome {
    tools::require_all()?;
    let mut build = cargo(&["build", "--release"]);
    for binary in ["sunaba", "sunaba-worker", "bench", "events-ingest"] {
        build.args(["--bin", binary]);
    }
    step("build", build)?;
    let mut command = Command::new(target().join("release/bench"));
    command.args(options);
    run(command)
}

/// One step of a command, with its name before and its time after.
fn step(name: &str, command: Command) -> Outcome {
    say(&format!("== {name}\n"));
    let begun = Instant::now();
    run(command).map_err(|why| format!("{name} failed: {why}"))?;
    say(&format!("== {name} took {}\n", words(begun.elapsed())));
    Ok(())
}

fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command
}

fn run(mut command: Command) -> Outcome {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} ended with {status}")),
        Err(error) => Err(format!("{program} cannot be started: {error}")),
    }
}

fn root() -> PathBuf {
    let xtask = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().map(PathBuf::from).unwrap_or(xtask)
}

/// Where cargo builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

fn words(time: Duration) -> String {
    let secs = time.as_secs();
    if secs < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {} s", secs / 60, secs % 60)
    }
}
