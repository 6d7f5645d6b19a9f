//! The transcript: a JSON-lines file with the CLI's entry format, at the CLI's path.
//!
//! In addition to the CLI's fields, an entry may have `scriptNext` (the next step) and `scriptTurnEnd`, from which a
//! resumed player restores its position. Entries are written, not synced: they survive a crash of the process, not of
//! the machine.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use uuid::Uuid;
use worker::clock;

/// The transcript of a session, open for appending.
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

/// The state of a session, read from its transcript.
#[derive(Debug, Default)]
pub struct History {
    /// Index of the next step.
    pub next: usize,
    /// Whether the last turn has not ended.
    pub turn_is_open: bool,
    pub pending_tool: Option<PendingTool>,
    pub totals: Totals,
    /// The text of the last user message.
    pub message: String,
    /// Ids of all user messages.
    pub received: HashSet<String>,
    parent: Option<String>,
}

/// A tool call without a result.
#[derive(Debug, Clone)]
pub struct PendingTool {
    pub id: String,
    /// The id of its transcript entry.
    pub entry: String,
    pub input: Map<String, Value>,
}

/// Usage of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Totals {
    #[serde(rename = "totalCostUSD")]
    pub cost: f64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Number of finished turns.
    pub results: u64,
}

/// The path of a transcript. The CLI derives the directory name from the working directory.
pub fn path_of(config_dir: &Path, cwd: &Path, session: Uuid) -> PathBuf {
    let key: String = cwd
        .to_string_lossy()
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
        .collect();
    config_dir.join("projects").join(key).join(format!("{session}.jsonl"))
}

impl Transcript {
    /// Opens or creates a transcript for appending.
    pub fn open(path: PathBuf, session: Uuid, cwd: &Path, history: &History) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let cwd = cwd.to_string_lossy().into_owned();
        let (parent, session) = (history.parent.clone(), session.to_string());
        Ok(Self { path, file, session, cwd, parent, sub_agent: None, unmirrored: Vec::new() })
    }

    /// Opens the separate transcript of a sub-agent, as the CLI does.
    pub fn sub_agent(&self, agent: &str) -> io::Result<Self> {
        let directory = self.path.with_extension("").join("subagents");
        fs::create_dir_all(&directory)?;
        let path = directory.join(format!("agent-{agent}.jsonl"));
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

    /// Appends an entry of the conversation, linked to the previous one.
    pub fn append_message(&mut self, uuid: &str, entry: Value) -> io::Result<()> {
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
        self.append(entry)
    }

    /// Appends an entry without a link to the conversation.
    pub fn append(&mut self, entry: Value) -> io::Result<()> {
        let mut entry = entry;
        entry["sessionId"] = self.session.as_str().into();
        if entry.get("timestamp").is_none() {
            entry["timestamp"] = clock::now().to_string().into();
        }
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        // A single write, so that a kill truncates at most the last line.
        self.file.write_all(&line)?;
        self.unmirrored.push(entry);
        Ok(())
    }

    /// A frame with the entries since the last call.
    pub fn mirror(&mut self) -> Option<Value> {
        let entries = std::mem::take(&mut self.unmirrored);
        let path = self.path.to_string_lossy();
        (!entries.is_empty())
            .then(|| json!({"type": "transcript_mirror", "filePath": path, "entries": entries}))
    }
}

impl History {
    /// Reads a transcript and removes a truncated last line.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read(path)?;
        let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if complete < text.len() {
            OpenOptions::new().write(true).open(path)?.set_len(complete as u64)?;
        }
        let lines = text[..complete].split(|byte| *byte == b'\n');
        let mut history = Self::default();
        lines.filter_map(|line| serde_json::from_slice(line).ok()).for_each(|entry| history.add(&entry));
        Ok(history)
    }

    fn add(&mut self, entry: &Value) {
        if let Some(uuid) = entry["uuid"].as_str() {
            self.parent = Some(uuid.to_owned());
        }
        if let (Some(origin), Some(uuid)) = (entry["promptSource"].as_str(), entry["uuid"].as_str()) {
            self.turn_is_open = true;
            self.received.insert(uuid.to_owned());
            if let (true, Some(text)) = (origin == "sdk", entry["message"]["content"].as_str()) {
                text.clone_into(&mut self.message);
            }
        }
        if let Some(uuid) = entry["attachment"]["source_uuid"].as_str() {
            self.received.insert(uuid.to_owned());
        }
        if let Some(next) = entry["scriptNext"].as_u64() {
            self.next = usize::try_from(next).unwrap_or(usize::MAX);
            let block = &entry["message"]["content"][0];
            self.pending_tool = (block["type"] == "tool_use").then(|| PendingTool {
                id: block["id"].as_str().unwrap_or_default().to_owned(),
                entry: entry["uuid"].as_str().unwrap_or_default().to_owned(),
                input: block["input"].as_object().cloned().unwrap_or_default(),
            });
        }
        if entry["scriptTurnEnd"] == true {
            self.turn_is_open = false;
        }
        if entry["type"] == "cost-state" {
            self.totals = Totals::deserialize(entry).unwrap_or_default();
        }
    }
}

/// Copies a session under a new id, for a fork.
pub fn copy(from: &Path, to: &Path, session: Uuid) -> io::Result<()> {
    let text = fs::read_to_string(from)?;
    let mut copied = String::with_capacity(text.len());
    for entry in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let mut entry = entry;
        entry["sessionId"] = session.to_string().into();
        copied.push_str(&entry.to_string());
        copied.push('\n');
    }
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(to, copied)
}
