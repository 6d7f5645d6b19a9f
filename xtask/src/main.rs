//! The project's own commands: `cargo xtask --help`.
//!
//! Only the standard library and `terminal`, which has nothing else, so that the first `cargo xtask` on a new machine
//! starts within seconds.

mod functions;
mod macos;
mod steps;
mod tools;
mod web;
mod worker;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;
use steps::{Lane, run, step};
use terminal::print as say;

const HELP: &str = "\
The project's own commands.

  cargo xtask dev [options]     start the whole plane; options are those of `sunaba dev` (try --help). Builds the console
                                first where its sources are newer than it
  cargo xtask test              everything that CI runs, with a table of times at the end
  cargo xtask test --quick      formatting, lints, and all tests that need no browser, emulator or release build
  cargo xtask gen               write what follows from the registry of functions and from the contract: parts of
                                template.yaml and infra/observability.yaml, docs/routes.md, web/src/api/contract.ts
  cargo xtask web               check, test and build the console into web/dist; fails if a browser has to load more than
                                350 KB (gzip) before it shows the first page
  cargo xtask e2e [options]     drive the console in Chromium against `sunaba dev`; options are those of Playwright
  cargo xtask tools             install what tests need; target/tools shows where
  cargo xtask captures          take what the last tests recorded of Claude Code into tests/it/captures
  cargo xtask check             formatting, lints and documentation, without tests
  cargo xtask check-macos       type-check sunaba and sunaba-worker for macOS (arm64), without a Mac
  cargo xtask build             build the functions with SAM, as for a deploy (release, arm64), into .aws-sam/build;
                                fails if the zip has more than 6 MB
  cargo xtask worker            build sunaba-worker for sandboxes (release, static, x86-64 and arm64) into
                                target/<processor>-unknown-linux-musl/release; fails if one has more than 12 MB
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
        "test" => test(&rest),
        "gen" => generate(),
        "web" => web::all(),
        "e2e" => web::drive(&rest),
        "tools" => tools::require_all(),
        "captures" => captures(),
        "check" => check(),
        "check-macos" => macos::check(),
        "build" => functions::build(),
        "worker" => worker::build(&worker::TARGETS),
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
    // As tests build it, so that no crate is compiled twice with different features.
    step("build", cargo(&["build", "--workspace", "--bin", "sunaba"]))?;
    // Replaces this process, so stopping one stops both.
    let error = Command::new(target().join("debug/sunaba")).arg("dev").args(options).exec();
    Err(format!("sunaba cannot be started: {error}"))
}

fn check() -> Outcome {
    lint_code()?;
    doc()
}

fn doc() -> Outcome {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    doc.env("RUSTDOCFLAGS", "--deny warnings");
    step("doc", doc)
}

/// Formatting and lints.
fn lint_code() -> Outcome {
    tools::require_compiler()?;
    format()?;
    clippy()
}

fn format() -> Outcome {
    step("format", cargo(&["fmt", "--all", "--check"]))
}

fn clippy() -> Outcome {
    step("clippy", cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"]))
}

fn test(options: &[String]) -> Outcome {
    let begun = Instant::now();
    let outcome = match options {
        [] => test_everything(),
        [quick] if quick == "--quick" => test_quickly(),
        _ => return Err("`cargo xtask test` knows one option: --quick".into()),
    };
    say(&steps::table(begun));
    outcome
}

fn test_quickly() -> Outcome {
    lint_code()?;
    tools::require_all()?;
    web::check()?;
    step("tests", cargo(&["test", "--workspace", "--locked"]))
}

fn test_everything() -> Outcome {
    tools::require_compiler()?;
    // Before the release builds, which a failure would wait for.
    format()?;
    let releases = Lane::start("release builds", || {
        functions::build()?;
        // The other processor is built where it is released; what differs is the target, which the functions show.
        worker::build(&worker::TARGETS[..1])?;
        macos::check()
    })?;
    let tested = tests_and_emulator();
    // Also after a failure: two at once are better known at once.
    let released = releases.join();
    tested.and(released)
}

fn tests_and_emulator() -> Outcome {
    clippy()?;
    doc()?;
    tools::require_all()?;
    // Before the tests: they are run with the program that holds it.
    web::all()?;
    // One build with one set of features for the tests, the browser and the emulator.
    step("build", cargo(&["build", "--workspace", "--all-targets", "--locked"]))?;
    step("tests", cargo(&["test", "--workspace", "--locked"]))?;
    functions::lint()?;
    functions::emulate(&[])?;
    functions::emulate(&["--watch".into()])?;
    web::drive(&[])
}

/// Files that are generated and committed. A test fails where one is old.
fn generate() -> Outcome {
    tools::require_compiler()?;
    step("build", cargo(&["build", "--workspace", "--bin", "codegen"]))?;
    let mut codegen = Command::new(target().join("debug/codegen"));
    codegen.arg(root());
    run(codegen)?;
    web::contract()
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
    let mut build = cargo(&["build", "--workspace", "--release"]);
    for binary in ["sunaba", "sunaba-worker", "bench", "sunaba-functions"] {
        build.args(["--bin", binary]);
    }
    step("build", build)?;
    let mut command = Command::new(target().join("release/bench"));
    command.args(options);
    run(command)
}

fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command
}

fn root() -> PathBuf {
    let xtask = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().map(PathBuf::from).unwrap_or(xtask)
}

/// Where cargo builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

fn complain(text: &str) {
    terminal::print_error(&format!("xtask: {text}"));
}
