//! The tools that the player has: they really do it, and answer in the CLI's words and shapes.

use super::shell::{self, Shell};
use serde_json::{Map, Value, json};
use similar::{ChangeTag, TextDiff};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::fs;

/// Files that a search looks at, at most.
const MAX_FILES: usize = 2_000;

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What the model would read.
    pub content: String,
    /// Whether it went wrong.
    pub is_error: bool,
    /// The same for programs.
    pub result: Value,
}

impl Answer {
    /// It went well.
    pub fn good(content: impl Into<String>, result: Value) -> Self {
        Self { content: content.into(), is_error: false, result }
    }

    /// It went wrong.
    pub fn bad(content: impl Into<String>) -> Self {
        let content = content.into();
        Self { result: format!("Error: {content}").into(), is_error: true, content }
    }
}

/// The fields that a tool of the player needs; nothing for tools that it does not have.
pub fn required(tool: &str) -> Option<&'static [&'static str]> {
    Some(match tool {
        "Bash" => &["command"],
        "Write" => &["file_path", "content"],
        "Edit" => &["file_path", "old_string", "new_string"],
        "Read" => &["file_path"],
        "Grep" | "Glob" => &["pattern"],
        "TodoWrite" => &["todos"],
        "Task" => &["description", "prompt"],
        _ => return None,
    })
}

/// The input as the CLI's model would have written it: with whole paths.
pub fn absolute(mut input: Map<String, Value>, cwd: &Path) -> Map<String, Value> {
    if let Some(Value::String(path)) = input.get_mut("file_path") {
        *path = cwd.join(&*path).to_string_lossy().into_owned();
    }
    input
}

/// Uses a tool. `before` are the todos so far.
pub async fn run(name: &str, input: &Map<String, Value>, shell: Shell<'_>, before: &Value) -> Answer {
    let text = |field: &str| input.get(field).and_then(Value::as_str).unwrap_or_default();
    let answer = match name {
        "Bash" => {
            let timeout = input.get("timeout").and_then(Value::as_u64).unwrap_or(120_000);
            bash(shell, text("command"), Duration::from_millis(timeout)).await
        }
        "Write" => write(Path::new(text("file_path")), text("content")).await,
        "Edit" => {
            let all = input.get("replace_all") == Some(&Value::Bool(true));
            edit(Path::new(text("file_path")), text("old_string"), text("new_string"), all).await
        }
        "Read" => read(Path::new(text("file_path"))).await,
        "Grep" => grep(shell.cwd, text("pattern")).await,
        "Glob" => glob(shell.cwd, text("pattern")).await,
        "TodoWrite" => {
            let todos = input.get("todos");
            Ok(Answer::good(
                "Todos have been modified successfully. Continue with the current tasks if there are any.",
                json!({"oldTodos": before, "newTodos": todos}),
            ))
        }
        _ => Ok(Answer::bad(format!("No such tool available: {name}"))),
    };
    answer.unwrap_or_else(|error| Answer::bad(error.to_string()))
}

async fn bash(shell: Shell<'_>, command: &str, timeout: Duration) -> std::io::Result<Answer> {
    let ended = shell::run(shell, command, timeout).await?;
    let both = [ended.stdout.as_str(), &ended.stderr].into_iter().filter(|text| !text.is_empty());
    let both = both.collect::<Vec<_>>().join("\n");
    Ok(match ended.code {
        Some(0) => Answer::good(
            both,
            json!({"stdout": ended.stdout, "stderr": ended.stderr, "interrupted": false, "isImage": false,
                "noOutputExpected": false}),
        ),
        Some(code) => Answer::bad(format!("Exit code {code}\n{both}")),
        None => Answer::bad(both),
    })
}

async fn write(path: &Path, content: &str) -> std::io::Result<Answer> {
    // In one go on another thread: a long script writes thousands.
    let (to, text) = (path.to_owned(), content.to_owned());
    let write = move || {
        let original = std::fs::read_to_string(&to).ok();
        if let (None, Some(folder)) = (&original, to.parent()) {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&to, text)?;
        Ok::<_, std::io::Error>(original)
    };
    let original = tokio::task::spawn_blocking(write).await??;
    let (kind, said) = match original {
        None => ("create", "File created successfully at:"),
        Some(_) => ("update", "The file has been updated successfully:"),
    };
    let patch = original.as_deref().map(|old| patch(old, content)).unwrap_or_default();
    Ok(Answer::good(
        format!("{said} {}", path.display()),
        json!({"type": kind, "filePath": path, "content": content, "structuredPatch": patch,
            "originalFile": original, "userModified": false}),
    ))
}

async fn edit(path: &Path, old: &str, new: &str, all: bool) -> std::io::Result<Answer> {
    let Ok(original) = fs::read_to_string(path).await else {
        return Ok(Answer::bad(format!("File does not exist: {}", path.display())));
    };
    let found = if old.is_empty() { 0 } else { original.matches(old).count() };
    if found == 0 {
        return Ok(Answer::bad(format!("String to replace not found in file.\nString: {old}")));
    }
    if found > 1 && !all {
        return Ok(Answer::bad(format!(
            "Found {found} matches of the string to replace, but replace_all is false.\nString: {old}"
        )));
    }
    let edited = original.replace(old, new);
    fs::write(path, &edited).await?;
    Ok(Answer::good(
        format!("The file {} has been updated successfully.", path.display()),
        json!({"filePath": path, "oldString": old, "newString": new, "originalFile": original,
            "structuredPatch": patch(&original, &edited), "userModified": false, "replaceAll": all}),
    ))
}

/// The difference as the CLI tells it: hunks with three lines around each change.
fn patch(old: &str, new: &str) -> Vec<Value> {
    let diff = TextDiff::from_lines(old, new);
    let hunk = |group: &Vec<similar::DiffOp>| {
        let lines: Vec<String> = group
            .iter()
            .flat_map(|operation| diff.iter_changes(operation))
            .map(|change| {
                let sign = match change.tag() {
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                    ChangeTag::Equal => ' ',
                };
                format!("{sign}{}", change.value().trim_end_matches('\n'))
            })
            .collect();
        let (first, last) = (group.first()?, group.last()?);
        let (old_start, new_start) = (first.old_range().start, first.new_range().start);
        Some(json!({
            "oldStart": old_start + 1, "oldLines": last.old_range().end - old_start,
            "newStart": new_start + 1, "newLines": last.new_range().end - new_start, "lines": lines,
        }))
    };
    diff.grouped_ops(3).iter().filter_map(hunk).collect()
}

async fn read(path: &Path) -> std::io::Result<Answer> {
    let Ok(content) = fs::read_to_string(path).await else {
        return Ok(Answer::bad("File does not exist."));
    };
    let lines = content.lines().count();
    let numbered: Vec<String> =
        content.lines().enumerate().map(|(index, line)| format!("{:>6}→{line}", index + 1)).collect();
    Ok(Answer::good(
        numbered.join("\n"),
        json!({"type": "text", "file": {"filePath": path, "content": content, "numLines": lines,
            "startLine": 1, "totalLines": lines}}),
    ))
}

/// Looks for a plain text, not for a regular expression: a script knows what it looks for.
async fn grep(cwd: &Path, pattern: &str) -> std::io::Result<Answer> {
    let (mut hits, mut names) = (Vec::new(), Vec::new());
    for path in files(cwd).await? {
        let content = fs::read_to_string(&path).await.unwrap_or_default();
        let name = relative(cwd, &path);
        let before = hits.len();
        let lines = content.lines().enumerate().filter(|(_, line)| line.contains(pattern));
        hits.extend(lines.map(|(index, line)| format!("{name}:{}:{line}", index + 1)));
        if hits.len() > before {
            names.push(name);
        }
    }
    let content = if hits.is_empty() { "No matches found".to_owned() } else { hits.join("\n") };
    let result = json!({"mode": "content", "numFiles": names.len(), "filenames": names,
        "numLines": hits.len(), "content": content});
    Ok(Answer::good(content, result))
}

/// `*` is any part of a name or path; nothing else is special.
async fn glob(cwd: &Path, pattern: &str) -> std::io::Result<Answer> {
    let names: Vec<String> = files(cwd).await?.iter().map(|path| relative(cwd, path)).collect();
    let names: Vec<String> = names.into_iter().filter(|name| matches(pattern, name)).collect();
    let content = if names.is_empty() { "No files found".to_owned() } else { names.join("\n") };
    Ok(Answer::good(content, json!({"numFiles": names.len(), "filenames": names, "truncated": false})))
}

fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*').filter(|part| !part.is_empty() && *part != "/");
    let mut rest = name;
    let found = parts.all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    });
    found && (pattern.ends_with('*') || rest.is_empty())
}

fn relative(cwd: &Path, path: &Path) -> String {
    path.strip_prefix(cwd).unwrap_or(path).to_string_lossy().into_owned()
}

/// The files of a folder and its folders, sorted, without hidden ones.
async fn files(cwd: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut folders, mut files) = (vec![cwd.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        let mut entries = fs::read_dir(&folder).await?;
        while let Some(entry) = entries.next_entry().await? {
            let kind = entry.file_type().await?;
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && files.len() < MAX_FILES {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}
