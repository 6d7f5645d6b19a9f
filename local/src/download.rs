//! `sunaba download`: the kept work of a task.

use crate::config::commands::{Address, Download};
use crate::tasks::{TIMEOUT, failure_text, plane, response_body, text};
use anyhow::{Context, bail, ensure};
use client::{Attempt, Plane};
use domain::TaskId;
use domain::kept::Format;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use terminal::{print_error, print_line};
use tokio::time::sleep;

/// How often a piece is requested before the download fails.
const MAX_ATTEMPTS: u32 = 5;
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Parts of the workspace that are left out and listed.
const MAX_LISTED: usize = 10;

pub async fn download(options: &Download) -> anyhow::Result<ExitCode> {
    let task = TaskId::parse(&options.task)?;
    let plane = plane(&options.address)?;
    let attempt = options.attempt.map(|attempt| format!("attempt={attempt}")).unwrap_or_default();
    let path = format!("/api/v1/tasks/{task}/workspace/files?{attempt}");
    let kept = response_body(&options.address, plane.get(&path).await)?;
    let file = choose(&kept, options)?;
    let extension = Format::ALL.into_iter().find(|format| format.as_str() == text(file, "format"));
    let extension = extension.map_or("bin", Format::extension);
    let target = options.out.clone().unwrap_or_else(|| PathBuf::from(format!("{task}.{extension}")));
    let to_stdout = target == Path::new("-");
    ensure!(
        to_stdout || options.force || !target.exists(),
        "{} exists; use --force to replace it, or --out with another name",
        target.display()
    );
    // The attempt is fixed: a new one may keep its work meanwhile.
    let number = kept["attempt"].as_u64().unwrap_or_default();
    let query = format!("format={}&attempt={number}", text(file, "format"));
    let content = pieces(&options.address, &plane, &task, &query, file).await?;
    if to_stdout {
        let _closed = std::io::stdout().write_all(&content);
        return Ok(ExitCode::SUCCESS);
    }
    write(&target, &content).with_context(|| format!("cannot write {}", target.display()))?;
    print_line(&format!("Saved {} ({}).", target.display(), size(content.len() as u64)));
    print_left_out(&kept);
    print_error(match text(file, "format") {
        "archive" => "Unpack it with: tar --zstd -xf FILE",
        "patch" => "Apply it with: git apply FILE",
        _ => "Fetch it into a clone of the repository with: git fetch FILE BRANCH",
    });
    Ok(ExitCode::SUCCESS)
}

/// The file of the wanted format, or what the plane would return without one.
fn choose<'a>(kept: &'a Value, options: &Download) -> anyhow::Result<&'a Value> {
    let files = kept["files"].as_array().map_or(&[][..], Vec::as_slice);
    let of = |format: &str| files.iter().find(|file| file["format"] == format);
    let found = match (options.patch, options.bundle) {
        (true, _) => of("patch"),
        (_, true) => of("bundle"),
        _ => of("archive").or_else(|| of("bundle")).or_else(|| of("patch")),
    };
    let formats: Vec<&str> = files.iter().map(|file| text(file, "format")).collect();
    found.with_context(|| format!("the plane does not have it in this form, only: {}", formats.join(", ")))
}

/// Downloads all pieces and checks the whole.
async fn pieces(
    address: &Address,
    plane: &Plane,
    task: &TaskId,
    query: &str,
    file: &Value,
) -> anyhow::Result<Vec<u8>> {
    let (count, total) =
        (file["pieces"].as_u64().unwrap_or(1), file["size_bytes"].as_u64().unwrap_or_default());
    let mut content = Vec::new();
    let shows_progress = std::io::stderr().is_terminal() && count > 1;
    for piece in 1..=count {
        let path = format!("/api/v1/tasks/{task}/workspace?{query}&piece={piece}");
        content.extend(one_piece(address, plane, &path).await?);
        if shows_progress {
            let done = format!("\rDownloaded {} of {}", size(content.len() as u64), size(total));
            let end = if piece == count { "\n" } else { "" };
            let _closed = std::io::stderr().write_all(format!("{done}{end}").as_bytes());
        }
    }
    let hash: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(hash == text(file, "sha256"), "the download is damaged; try again");
    Ok(content)
}

async fn one_piece(address: &Address, plane: &Plane, path: &str) -> anyhow::Result<Vec<u8>> {
    let mut attempt = 1;
    loop {
        match plane.get_bytes(path).await {
            Attempt::Answered(bytes) => return Ok(bytes),
            Attempt::Refused(problem) => bail!("{}", problem.detail),
            Attempt::Failed(failed) if attempt < MAX_ATTEMPTS => {
                sleep(failed.retry_after.unwrap_or(RETRY_DELAY).min(TIMEOUT)).await;
                attempt += 1;
            }
            Attempt::Failed(failed) => bail!("{}", failure_text(address, failed)),
        }
    }
}

/// Through another file, so that an interrupted write leaves no incomplete file under the name.
fn write(target: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = target.with_file_name(name);
    std::fs::write(&part, content)?;
    std::fs::rename(&part, target)
}

fn print_left_out(kept: &Value) {
    let count = kept["left_out_count"].as_u64().unwrap_or_default();
    if count == 0 {
        return;
    }
    print_error(&format!("Not included ({count}):"));
    let listed = kept["left_out"].as_array().map_or(&[][..], Vec::as_slice);
    for part in listed.iter().take(MAX_LISTED) {
        let line = format!("  {}: {}", text(part, "path"), text(part, "reason"));
        // An agent chooses names of files.
        print_error(&line.replace(char::is_control, "\u{fffd}"));
    }
    if count > MAX_LISTED.min(listed.len()) as u64 {
        print_error("  …");
    }
}

fn size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a size for people")]
    let bytes = bytes as f64;
    match bytes {
        ..1e3 => format!("{bytes} bytes"),
        ..1e6 => format!("{:.1} KB", bytes / 1e3),
        _ => format!("{:.1} MB", bytes / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        options: Download,
    }

    fn options(arguments: &[&str]) -> Download {
        let arguments = ["sunaba", "t-1"].into_iter().chain(arguments.iter().copied());
        Program::parse_from(arguments).options
    }

    #[test]
    fn files_of_the_workspace_are_preferred_and_a_missing_form_names_the_others() {
        let kept = |formats: &[&str]| {
            let files: Vec<Value> = formats.iter().map(|format| json!({"format": format})).collect();
            json!({ "files": files })
        };
        let all = kept(&["patch", "bundle", "archive"]);
        for (arguments, expected) in
            [(&[][..], "archive"), (&["--patch"][..], "patch"), (&["--bundle"][..], "bundle")]
        {
            assert_eq!(text(choose(&all, &options(arguments)).unwrap(), "format"), expected);
        }
        assert_eq!(text(choose(&kept(&["patch", "bundle"]), &options(&[])).unwrap(), "format"), "bundle");
        let missing = choose(&kept(&["archive"]), &options(&["--patch"])).unwrap_err().to_string();
        assert_eq!(missing, "the plane does not have it in this form, only: archive");
    }

    #[test]
    fn sizes_are_rounded_for_people() {
        assert_eq!([999, 1_500, 2_345_678].map(size), ["999 bytes", "1.5 KB", "2.3 MB"]);
    }
}
