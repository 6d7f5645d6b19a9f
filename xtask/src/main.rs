//! Development commands: `cargo xtask --help`.
//!
//! Depends only on the standard library and `terminal`, which has no dependencies, so that the first `cargo xtask` on a new
//! machine starts within seconds.

mod api;
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
use steps::{Background, run, step};
use terminal::print;

const HELP: &str = "\
Development commands.

  cargo xtask dev [options]     start the local plane; options are those of `sunaba dev` (see --help). Builds the console
                                first if it is outdated
  cargo xtask test              run all checks and tests of CI, with a table of durations at the end
  cargo xtask test --quick      formatting, lints, and all tests that need no browser, emulator or release build
  cargo xtask gen               generate files from the function registry, the commands and the contract: parts of
                                template.yaml and infra/observability.yaml, reference pages in docs (routes, cli,
                                environment, errors), openapi.json, asyncapi.json, reference.html and
                                event-payloads.schema.json in docs, web/src/api/contract.ts
  cargo xtask web               check, test and build the console into web/dist; fails if the first page loads more than
                                350 KB (gzip)
  cargo xtask e2e [options]     run the console's end-to-end tests in Chromium; options are those of Playwright
  cargo xtask api [options]     send generated requests to a local plane and compare the responses with
                                docs/openapi.json; fails below 2,000 cases; options are those of `schemathesis run`
  cargo xtask tools             install the tools that tests need; target/tools links to them
  cargo xtask captures          copy the recordings of Claude Code from the last test run to tests/it/captures
  cargo xtask check             formatting, lints and documentation, without tests
  cargo xtask check-macos       type-check sunaba and sunaba-worker for macOS (arm64), without a Mac
  cargo xtask build             build the functions with SAM, as for a deployment (release, arm64), into
                                .aws-sam/build; fails if the zip is larger than 6 MB
  cargo xtask worker            build sunaba-worker for sandboxes (release, static, x86-64 and arm64) into
                                target/<architecture>-unknown-linux-musl/release; fails if one is larger than 12 MB
  cargo xtask lint              check template.yaml and infra/ without deploying them
  cargo xtask emulate [option]  deploy the real template into an AWS emulator on this machine and test it; --keep leaves
                                it running, --watch tests `cargo lambda watch` instead
  cargo xtask bench [options]   benchmark a release build (--quick for a shorter run; start, isolation, posts, batches,
                                sockets, messages, tickets, pages or worker to run only those scenarios)
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
        "e2e" => web::e2e(&rest),
        "tools" => tools::require_all(),
        "captures" => captures(),
        "check" => check(),
        "check-macos" => macos::check(),
        "build" => functions::build(),
        "worker" => worker::build(&worker::TARGETS),
        "lint" => functions::lint(),
        "api" => api::test(&rest),
        "emulate" => functions::emulate(&rest),
        "bench" => bench(&rest),
        "" | "help" | "--help" | "-h" => {
            print(HELP);
            return ExitCode::SUCCESS;
        }
        other => Err(format!("unknown command {other:?}; see `cargo xtask --help`")),
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
    // First, because the program embeds the console.
    web::build_if_outdated()?;
    // With the features of the whole workspace, so that no crate is compiled twice.
    step("build", cargo(&["build", "--workspace", "--bin", "sunaba"]))?;
    // Replaces this process, so stopping one stops both.
    let error = Command::new(target().join("debug/sunaba")).arg("dev").args(options).exec();
    Err(format!("cannot start sunaba: {error}"))
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
        [] => test_all(),
        [quick] if quick == "--quick" => test_quick(),
        _ => return Err("the only option of `cargo xtask test` is --quick".into()),
    };
    print(&steps::table(begun));
    outcome
}

fn test_quick() -> Outcome {
    lint_code()?;
    tools::require_all()?;
    web::check()?;
    step("tests", tests())
}

/// Two tests per core: most integration tests wait for processes more than they compute.
fn tests() -> Command {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut command = cargo(&["test", "--workspace", "--locked"]);
    command.env("RUST_TEST_THREADS", (2 * cores).to_string());
    command
}

fn test_all() -> Outcome {
    tools::require_compiler()?;
    // Before the release builds, so that a failure is reported at once.
    format()?;
    let releases = Background::start("release builds", || {
        functions::build()?;
        // The release workflow builds both architectures. One is enough here: the functions cover arm64.
        worker::build(&worker::TARGETS[..1])?;
        macos::check()
    })?;
    let tested = tests_and_emulator();
    // Also after a failure, so that both failures are reported.
    let released = releases.join();
    tested.and(released)
}

fn tests_and_emulator() -> Outcome {
    clippy()?;
    doc()?;
    tools::require_all()?;
    // Before the tests, because the tested program embeds the console.
    web::all()?;
    // One build with one set of features for the tests, the browser and the emulator.
    step("build", cargo(&["build", "--workspace", "--all-targets", "--locked"]))?;
    step("tests", tests())?;
    api::test(&[])?;
    functions::lint()?;
    functions::emulate(&[])?;
    functions::emulate(&["--watch".into()])?;
    web::e2e(&[])
}

/// Writes all generated files. A test fails if one is outdated.
fn generate() -> Outcome {
    tools::require_compiler()?;
    step("build", cargo(&["build", "--workspace", "--bin", "codegen"]))?;
    let mut codegen = Command::new(target().join("debug/codegen"));
    codegen.arg(root());
    run(codegen)?;
    web::contract()
}

/// Copies recordings of the real Claude Code, which tests of the worker read. Review the differences after an upgrade.
fn captures() -> Outcome {
    let (from, to) = (target().join("captures/claude"), root().join("tests/it/captures/claude"));
    let copied = std::fs::create_dir_all(&to).and_then(|()| {
        for file in std::fs::read_dir(&from)? {
            let file = file?;
            std::fs::copy(file.path(), to.join(file.file_name()))?;
        }
        Ok(())
    });
    copied.map_err(|error| format!("cannot copy from {}: {error}; run the tests first", from.display()))
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

/// Cargo's target folder.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

fn print_error(text: &str) {
    terminal::print_error(&format!("xtask: {text}"));
}
