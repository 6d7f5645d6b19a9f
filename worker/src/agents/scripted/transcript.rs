//! What a session remembers: a file of entries like the CLI's, one line each, at the place where the CLI would put it.
//!
//! Beside the CLI's fields an entry may have `scriptNext` (the step that comes after it) and `scriptTurnEnd`: with them
//! a resumed player knows where it was. Entries are written, not synced: they survive the process, not the machine.

use crate::clock;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// A session's file, open for more.
#[derive(Debug)]
pub struct Transcript {
    path: PathBuf,
    file: File,
    session: String,
    cwd: String,
    parent: Option<String>,
    sub_agent: Option<String>,
    unmirrored: Vec<Value>,
}

/// What a file says about the session so far.
#[derive(Debug, Default)]
pub struct Past {
    /// The step that comes next.
    pub next: usize,
    /// Whether a turn was cut off.
    pub open: bool,
    /// A tool that was begun and has no result.
    pub unanswered: Option<Unanswered>,
    /// What was spent.
    pub totals: Totals,
    /// What was said last by the user.
    pub message: String,
    /// Everything that was said, by name.
    pub heard: HashSet<String>,
    parent: Option<String>,
}

/// A tool that was begun and has no result.
#[derive(Debug, Clone)]
pub struct Unanswered {
    /// The tool use.
    pub id: String,
    /// The entry that began it.
    pub entry: String,
    /// As it was begun.
    pub input: Map<String, Value>,
}

/// What a session has spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Totals {
    /// In dollars.
    #[serde(rename = "totalCostUSD")]
    pub cost: f64,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Turns that have ended.
    pub results: u64,
}

/// Where a session's file is: the CLI names the folder after the working directory.
pub fn path_of(config_dir: &Path, cwd: &Path, session: Uuid) -> PathBuf {
    let key: String = cwd
        .to_string_lossy()
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
        .collect();
    config_dir.join("projects").join(key).join(format!("{session}.jsonl"))
}

impl Transcript {
    /// Opens a session's file at its end, which is made if it is not there.
    pub fn open(path: PathBuf, session: Uuid, cwd: &Path, past: &Past) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let cwd = cwd.to_string_lossy().into_owned();
        let (parent, session) = (past.parent.clone(), session.to_string());
        Ok(Self { path, file, session, cwd, parent, sub_agent: None, unmirrored: Vec::new() })
    }

    /// A sub-agent's own file, as the CLI keeps one.
    pub fn sub_agent(&self, agent: &str) -> io::Result<Self> {
        let folder = self.path.with_extension("").join("subagents");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("agent-{agent}.jsonl"));
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        Ok(Self {
            path,
            file,
            session: self.session.clone(),
            cwd: self.cwd.clone(),
            parent: None,
            sub_agent: Some(agent.to_owned()),
            unmirrored: Vec::new(),
        })
    }

    /// Writes an entry that is part of the conversation, after the one before it.
    pub fn link(&mut self, uuid: &str, entry: Value) -> io::Result<()> {
        let mut entry = entry;
        entry["uuid"] = uuid.into();
        entry["parentUuid"] = self.parent.replace(uuid.to_owned()).into();
        entry["isSidechain"] = self.sub_agent.is_some().into();
        if let Some(agent) = &self.sub_agent {
            entry["agentId"] = agent.as_str().into();
        }
        entry["cwd"] = self.cwd.as_str().into();
        entry["userType"] = "external".into();
        entry["entrypoint"] = "sdk-cli".into();
        entry["version"] = super::frames::VERSION.into();
        self.note(entry)
    }

    /// Writes an entry that only keeps the books.
    pub fn note(&mut self, entry: Value) -> io::Result<()> {
        let mut entry = entry;
        entry["sessionId"] = self.session.as_str().into();
        if entry.get("timestamp").is_none() {
            entry["timestamp"] = clock::now().to_string().into();
        }
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        // In one call, so that a kill leaves a whole line or, at worst, a last one that is cut.
        self.file.write_all(&line)?;
        self.unmirrored.push(entry);
        Ok(())
    }

    /// The frame with the entries that were written since the last one.
    pub fn mirror(&mut self) -> Option<Value> {
        let entries = std::mem::take(&mut self.unmirrored);
        let path = self.path.to_string_lossy();
        (!entries.is_empty())
            .then(|| json!({"type": "transcript_mirror", "filePath": path, "entries": entries}))
    }
}

impl Past {
    /// Reads a session's file, and cuts off a last line that was not written to its end.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read(path)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
        }
        let lines = text[..whole].split(|byte| *byte == b'\n');
        let mut past = Self::default();
        lines.filter_map(|line| serde_json::from_slice(line).ok()).for_each(|entry| past.add(&entry));
        Ok(past)
    }

    fn add(&mut self, entry: &Value) {
        if let Some(uuid) = entry["uuid"].as_str() {
            self.parent = Some(uuid.to_owned());
        }
        if let (Some(origin), Some(uuid)) = (entry["promptSource"].as_str(), entry["uuid"].as_str()) {
            self.open = true;
            self.heard.insert(uuid.to_owned());
            if let (true, Some(text)) = (origin == "sdk", entry["message"]["content"].as_str()) {
                text.clone_into(&mut self.message);
            }
        }
        if let Some(uuid) = entry["attachment"]["source_uuid"].as_str() {
            self.heard.insert(uuid.to_owned());
        }
        if let Some(next) = entry["scriptNext"].as_u64() {
            self.next = usize::try_from(next).unwrap_or(usize::MAX);
            let block = &entry["message"]["content"][0];
            self.unanswered = (block["type"] == "tool_use").then(|| Unanswered {
                id: block["id"].as_str().unwrap_or_default().to_owned(),
                entry: entry["uuid"].as_str().unwrap_or_default().to_owned(),
                input: block["input"].as_object().cloned().unwrap_or_default(),
            });
        }
        if entry["scriptTurnEnd"] == true {
            self.open = false;
        }
        if entry["type"] == "cost-state" {
            self.totals = Totals::deserialize(entry).unwrap_or_default();
        }
    }
}

/// Copies a session to a new name, as a fork begins.
pub fn copy(from: &Path, to: &Path, session: Uuid) -> io::Result<()> {
    let text = fs::read_to_string(from)?;
    let mut copied = String::with_capacity(text.len());
    for entry in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let mut entry = entry;
        entry["sessionId"] = session.to_string().into();
        copied.push_str(&entry.to_string());
        copied.push('\n');
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, copied)
}
