//! The transcript of a session: a JSON Lines file to which the CLI appends. The plane stores a copy, so that the
//! session can be resumed in another sandbox.
//!
//! Entry n of the copy is line n of the file, so the outbox only has to know how many entries were copied. Frames that
//! mirror the transcript only trigger a read: the file also contains what was written while no worker was running.

use crate::agent_files;
use domain::JsonObject;
use serde_json::value::RawValue;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Maximum number of bytes read at a time. A long transcript may not fit in memory.
const CHUNK_BYTES: u64 = 1024 * 1024;

/// Path of the transcript of a session in `cwd`.
pub fn path(config_dir: &Path, cwd: &Path, session: &str) -> PathBuf {
    let key: String =
        cwd.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    config_dir.join("projects").join(key).join(format!("{session}.jsonl"))
}

/// Opens a transcript. The agent can put links into the directory of its configuration, but not beside it.
///
/// # Errors
/// If it does not exist or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let (root, inner) = split(path);
    agent_files::open(root, inner)
}

/// The directory above that of the agent's configuration, and the path in it.
fn split(path: &Path) -> (&Path, &Path) {
    // `projects`, the workspace's name, and the file are below the directory.
    let root = path.ancestors().nth(4).unwrap_or(Path::new("/"));
    (root, path.strip_prefix(root).expect("an ancestor"))
}

/// Reads the lines that are appended to a transcript.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    offset: u64,
    /// Number of complete lines before `offset`.
    lines: u64,
    /// Number of lines to skip because they were copied before.
    skip: u64,
}

impl Tail {
    /// The first `copied` lines are skipped.
    pub fn new(path: PathBuf, copied: u64) -> Self {
        Self { path, offset: 0, lines: 0, skip: copied }
    }

    /// Continues after the first `copied` lines, whatever the current position.
    pub fn seek_after(&mut self, copied: u64) {
        if self.lines.max(self.skip) != copied {
            *self = Self::new(std::mem::take(&mut self.path), copied);
        }
    }

    /// Returns the next complete lines, about one megabyte at most. Call it until it returns none.
    ///
    /// # Errors
    /// If the file exists and cannot be read, or was truncated: then it is not the file that was copied.
    pub fn read(&mut self) -> io::Result<Vec<Box<RawValue>>> {
        let mut file = match open(&self.path) {
            Ok(file) => file,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(why) => return Err(why),
        };
        if file.metadata()?.len() < self.offset {
            return Err(io::Error::other("the transcript was truncated"));
        }
        loop {
            file.seek(SeekFrom::Start(self.offset))?;
            let bytes = complete_lines(&mut file)?;
            if bytes.is_empty() {
                return Ok(Vec::new());
            }
            let entries = self.parse(&bytes);
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
    }

    fn parse(&mut self, bytes: &[u8]) -> Vec<Box<RawValue>> {
        self.offset += bytes.len() as u64;
        let mut entries = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.lines += 1;
            if self.lines <= self.skip {
                continue;
            }
            let text = String::from_utf8_lossy(line);
            // A line that is not JSON becomes an entry too, so that entry numbers remain line numbers.
            let entry = RawValue::from_string(text.trim().to_owned())
                .ok()
                .filter(|entry| entry.get().starts_with('{'));
            entries.push(entry.unwrap_or_else(|| {
                let unreadable = serde_json::json!({ "type": "unreadable", "text": text });
                serde_json::value::to_raw_value(&unreadable).expect("a JSON value serializes")
            }));
        }
        entries
    }
}

/// Reads about one megabyte up to the last complete line; more if a single line is longer.
fn complete_lines(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let read = file.take(CHUNK_BYTES).read_to_end(&mut bytes)?;
        if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
            bytes.truncate(end + 1);
            return Ok(bytes);
        }
        if read == 0 {
            return Ok(Vec::new());
        }
    }
}

/// Writes a downloaded transcript for a session to resume.
#[derive(Debug)]
pub struct TranscriptWriter {
    file: io::BufWriter<File>,
    lines: u64,
}

impl TranscriptWriter {
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let (root, inner) = split(path);
        fs::create_dir_all(root)?;
        agent_files::create_directories(root, inner.parent().unwrap_or(Path::new("")))?;
        Ok(Self { file: io::BufWriter::new(agent_files::create(root, inner)?), lines: 0 })
    }

    /// Writes each entry as one line, placeholders included, so that line numbers remain entry numbers.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn append(&mut self, entries: &[JsonObject]) -> io::Result<()> {
        for entry in entries {
            // A stored entry may contain line breaks.
            for line in entry.text().lines() {
                self.file.write_all(line.as_bytes())?;
            }
            self.file.write_all(b"\n")?;
            self.lines += 1;
        }
        Ok(())
    }

    /// Flushes the file and returns the number of lines.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> io::Result<u64> {
        self.file.flush()?;
        Ok(self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(tail: &mut Tail) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let entries = tail.read().unwrap();
            if entries.is_empty() {
                return all;
            }
            all.extend(entries.iter().map(|entry| entry.get().to_owned()));
        }
    }

    #[test]
    fn each_line_is_read_once_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let mut tail = Tail::new(path.clone(), 0);
        assert!(all(&mut tail).is_empty(), "the file does not exist yet");
        fs::write(&path, "{\"n\":1}\n{\"n\":2}\n{\"n\":").unwrap();
        assert_eq!(all(&mut tail), ["{\"n\":1}", "{\"n\":2}"]);
        let long = "x".repeat(3 * 1024 * 1024);
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        write!(file, "3}}\n{{\"long\":\"{long}\"}}\nnot json\n").unwrap();
        let rest = all(&mut tail);
        assert_eq!(rest[0], "{\"n\":3}");
        assert_eq!(rest[1].len(), long.len() + 11);
        assert!(rest[2].contains("unreadable"), "{}", rest[2]);
        let again = all(&mut Tail::new(path, 2));
        assert_eq!(again, rest, "a new tail continues after the copied lines");
    }

    #[test]
    fn written_transcript_has_the_same_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(dir.path(), Path::new("/home/my app"), "s-1");
        assert!(path.ends_with("projects/-home-my-app/s-1.jsonl"));
        let entries: Vec<_> = ["{\"a\":1}", "{\"b\":\n2}"]
            .into_iter()
            .map(|text| JsonObject::parse(&RawValue::from_string(text.to_owned()).unwrap()).unwrap())
            .collect();
        let mut writer = TranscriptWriter::create(&path).unwrap();
        writer.append(&entries[..1]).unwrap();
        writer.append(&entries[1..]).unwrap();
        assert_eq!(writer.finish().unwrap(), 2);
        let mut tail = Tail::new(path, 0);
        assert_eq!(all(&mut tail), ["{\"a\":1}", "{\"b\":2}"]);
        tail.seek_after(2);
        assert!(all(&mut tail).is_empty());
        tail.seek_after(1);
        assert_eq!(all(&mut tail), ["{\"b\":2}"], "seeking back reads the line again");
    }
}
