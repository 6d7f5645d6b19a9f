//! End-to-end test of session transcripts: append, read, and take over by another sandbox.

use crate::plane::Plane;
use crate::report::Report;
use anyhow::ensure;
use reqwest::Method;
use serde_json::{Value, json};

/// Uses two sandboxes of its own.
pub async fn run(report: &mut Report, plane: &Plane) -> anyhow::Result<()> {
    let token = plane.register("s-record").await?;
    report.step("session entries are stored once, by number", append(plane, &token)).await?;
    report.step("session is read page by page", read(plane, &token)).await?;
    report.step("resuming sandbox takes over the session", take_over(plane, &token)).await
}

fn path(sandbox: &str) -> String {
    format!("/api/v1/sandboxes/{sandbox}/sessions/c0ffee/entries")
}

async fn add(plane: &Plane, sandbox: &str, token: &str, first: u64) -> anyhow::Result<(u16, Value)> {
    let body =
        json!({"first": first, "entries": [{"n": first}, {"n": first + 1, "text": "x".repeat(20_000)}]});
    plane.call(Method::POST, &path(sandbox), Some(token), Some(body)).await
}

async fn append(plane: &Plane, token: &str) -> anyhow::Result<()> {
    for (first, next, repeated) in [(1, 3, false), (3, 5, false), (1, 3, true)] {
        let (status, body) = add(plane, "s-record", token, first).await?;
        ensure!(status == 200 && body["next"] == next && body["repeated"] == repeated, "{status} {body}");
    }
    let (status, body) = add(plane, "s-record", token, 9).await?;
    ensure!(status == 409 && body["code"] == "entries_gap" && body["expected_first"] == 5, "{status} {body}");
    Ok(())
}

async fn read(plane: &Plane, token: &str) -> anyhow::Result<()> {
    let mut numbers = Vec::new();
    for after in [0, 3] {
        let page = format!("{}?after={after}&limit=3", path("s-record"));
        let (status, body) = plane.call(Method::GET, &page, Some(token), None).await?;
        ensure!(status == 200 && body["has_more"] == (after == 0), "{status} {body}");
        numbers
            .extend(body["entries"].as_array().into_iter().flatten().filter_map(|entry| entry["n"].as_u64()));
    }
    ensure!(numbers == [1, 2, 3, 4], "{numbers:?}");
    Ok(())
}

async fn take_over(plane: &Plane, former: &str) -> anyhow::Result<()> {
    let body = json!({"sandbox_id": "s-successor", "org": "acme", "resumes": "c0ffee"});
    let (status, body) =
        plane.call(Method::POST, "/api/v1/sandboxes", Some(&plane.operator), Some(body)).await?;
    ensure!(status == 201, "{status} {body}");
    let successor = body["worker_token"].as_str().unwrap_or_default().to_owned();
    let (status, body) = add(plane, "s-successor", &successor, 5).await?;
    ensure!(status == 200, "{status} {body}");
    let (status, body) = add(plane, "s-record", former, 7).await?;
    ensure!(status == 409 && body["code"] == "session_superseded", "{status} {body}");
    Ok(())
}
