//! The tools of the player. They really execute, and return results in the format of the CLI.

use super::shell::{self, Shell};
use serde_json::{Map, Value, json};
use similar::{ChangeTag, TextDiff};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::fs;

/// Maximum number of files in a search.
const MAX_FILES: usize = 2_000;

#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// The text for the model.
    pub content: String,
    pub is_error: bool,
    /// The structured result.
    pub result: Value,
}

impl ToolOutput {
    pub fn ok(content: impl Into<String>, result: Value) -> Self {
        Self { content: content.into(), is_error: false, result }
    }

    pub fn error(content: impl Into<String>) -> Self {
        let content = content.into();
        Self { result: format!("Error: {content}").into(), is_error: true, content }
    }
}

/// Required input fields; `None` for tools that the player does not implement.
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

/// Makes paths absolute, as the CLI's model does.
pub fn absolute(mut input: Map<String, Value>, cwd: &Path) -> Map<String, Value> {
    if let Some(Value::String(path)) = input.get_mut("file_path") {
        *path = cwd.join(&*path).to_string_lossy().into_owned();
    }
    input
}

/// Executes a tool.
pub async fn run(name: &str, input: &Map<String, Value>, shell: Shell<'_>, todos: &Value) -> ToolOutput {
    let text = |field: &str| input.get(field).and_then(Value::as_str).unwrap_or_default();
    let output = match name {
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
            let new_todos = input.get("todos");
            Ok(ToolOutput::ok(
                "Todos have been modified successfully. Continue with the current tasks if there are any.",
                json!({"oldTodos": todos, "newTodos": new_todos}),
            ))
        }
        _ => Ok(ToolOutput::error(format!("No such tool available: {name}"))),
    };
    output.unwrap_or_else(|error| ToolOutput::error(error.to_string()))
}

async fn bash(shell: Shell<'_>, command: &str, timeout: Duration) -> std::io::Result<ToolOutput> {
    let output = shell::run(shell, command, timeout).await?;
    let both = [output.stdout.as_str(), &output.stderr].into_iter().filter(|text| !text.is_empty());
    let both = both.collect::<Vec<_>>().join("\n");
    Ok(match output.code {
        Some(0) => ToolOutput::ok(
            both,
            json!({"stdout": output.stdout, "stderr": output.stderr, "interrupted": false, "isImage": false,
                "noOutputExpected": false}),
        ),
        Some(code) => ToolOutput::error(format!("Exit code {code}\n{both}")),
        None => ToolOutput::error(both),
    })
}

async fn write(path: &Path, content: &str) -> std::io::Result<ToolOutput> {
    // One blocking task instead of three: a long script writes thousands of files.
    let (to, text) = (path.to_owned(), content.to_owned());
    let write = move || {
        let original = std::fs::read_to_string(&to).ok();
        if let (None, Some(directory)) = (&original, to.parent()) {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(&to, text)?;
        Ok::<_, std::io::Error>(original)
    };
    let original = tokio::task::spawn_blocking(write).await??;
    let (kind, message) = match original {
        None => ("create", "File created successfully at:"),
        Some(_) => ("update", "The file has been updated successfully:"),
    };
    let patch = original.as_deref().map(|old| patch(old, content)).unwrap_or_default();
    Ok(ToolOutput::ok(
        format!("{message} {}", path.display()),
        json!({"type": kind, "filePath": path, "content": content, "structuredPatch": patch,
            "originalFile": original, "userModified": false}),
    ))
}

async fn edit(path: &Path, old: &str, new: &str, all: bool) -> std::io::Result<ToolOutput> {
    let Ok(original) = fs::read_to_string(path).await else {
        return Ok(ToolOutput::error(format!("File does not exist: {}", path.display())));
    };
    let found = if old.is_empty() { 0 } else { original.matches(old).count() };
    if found == 0 {
        return Ok(ToolOutput::error(format!("String to replace not found in file.\nString: {old}")));
    }
    if found > 1 && !all {
        return Ok(ToolOutput::error(format!(
            "Found {found} matches of the string to replace, but replace_all is false.\nString: {old}"
        )));
    }
    let edited = original.replace(old, new);
    fs::write(path, &edited).await?;
    Ok(ToolOutput::ok(
        format!("The file {} has been updated successfully.", path.display()),
        json!({"filePath": path, "oldString": old, "newString": new, "originalFile": original,
            "structuredPatch": patch(&original, &edited), "userModified": false, "replaceAll": all}),
    ))
}

/// A diff in the format of the CLI: hunks with three lines of context.
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

async fn read(path: &Path) -> std::io::Result<ToolOutput> {
    let Ok(content) = fs::read_to_string(path).await else {
        return Ok(ToolOutput::error("File does not exist."));
    };
    let lines = content.lines().count();
    let numbered: Vec<String> =
        content.lines().enumerate().map(|(index, line)| format!("{:>6}→{line}", index + 1)).collect();
    Ok(ToolOutput::ok(
        numbered.join("\n"),
        json!({"type": "text", "file": {"filePath": path, "content": content, "numLines": lines,
            "startLine": 1, "totalLines": lines}}),
    ))
}

/// Searches for a literal string, not a regular expression.
async fn grep(cwd: &Path, pattern: &str) -> std::io::Result<ToolOutput> {
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
    Ok(ToolOutput::ok(content, result))
}

/// `*` matches any part of a path; there are no other wildcards.
async fn glob(cwd: &Path, pattern: &str) -> std::io::Result<ToolOutput> {
    let names: Vec<String> = files(cwd).await?.iter().map(|path| relative(cwd, path)).collect();
    let names: Vec<String> = names.into_iter().filter(|name| matches(pattern, name)).collect();
    let content = if names.is_empty() { "No files found".to_owned() } else { names.join("\n") };
    Ok(ToolOutput::ok(content, json!({"numFiles": names.len(), "filenames": names, "truncated": false})))
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

/// All files below a directory, sorted, without hidden ones.
async fn files(cwd: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut directories, mut files) = (vec![cwd.to_path_buf()], Vec::new());
    while let Some(directory) = directories.pop() {
        let mut entries = fs::read_dir(&directory).await?;
        while let Some(entry) = entries.next_entry().await? {
            let kind = entry.file_type().await?;
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() && files.len() < MAX_FILES {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}
