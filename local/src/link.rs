//! `sunaba link`: a new link to the console.

use crate::config::commands::Link;
use crate::tasks::{plane, response_body};
use anyhow::{Context, bail};
use client::Attempt;
use contract::sign_in::{CODES_PATH, SignInCode, console_link};
use serde_json::json;
use std::process::ExitCode;
use terminal::{print_error, print_line};

pub async fn run(options: &Link) -> anyhow::Result<ExitCode> {
    let address = &options.address;
    let attempt = plane(address)?.post(CODES_PATH, &json!({})).await;
    if matches!(&attempt, Attempt::Refused(problem) if problem.code == "route_not_found") {
        bail!(
            "{} has no sign-in links, only planes that `sunaba dev` started have; paste a token into its console",
            address.plane()
        );
    }
    let created = response_body(address, attempt)?;
    let SignInCode { code, expires_in_secs } =
        serde_json::from_value(created).context("the plane sent an invalid response")?;
    print_line(&console_link(address.plane(), code.as_deref()));
    if code.is_some() {
        // Not on standard output, so that a script can use the link.
        print_error(&format!("The link works once, within {} minutes.", expires_in_secs / 60));
    }
    Ok(ExitCode::SUCCESS)
}
