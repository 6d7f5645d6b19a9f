//! The CLI's own record of a session: a file of JSON lines to which it appends. The plane keeps a copy, so that the
//! session can go on in another sandbox.
//!
//! The copy is numbered by line: the n-th entry of the copy is the n-th line of the file. So nobody has to remember
//! what was copied; the outbox knows how many. Frames that mirror the record only say when to look: the file has all of
//! it, also what was written while nobody listened.

use domain::JsonObject;
use serde_json::value::RawValue;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Most bytes that are read at a time: a long record must not stand in memory as a whole.
const CHUNK_BYTES: u64 = 1024 * 1024;

/// Where the CLI keeps the record of a session that works in `cwd`.
pub fn path(config_dir: &Path, cwd: &Path, session: &str) -> PathBuf {
    let key: String =
        cwd.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    config_dir.join("projects").join(key).join(format!("{session}.jsonl"))
}

/// A record that is being copied.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    /// Up to here it was read.
    offset: u64,
    /// How many whole lines come before that.
    lines: u64,
    /// How many lines were copied in an earlier life.
    skip: u64,
}

impl Tail {
    /// Of the record at `path`, of which the first `copied` lines are copied.
    pub fn new(path: PathBuf, copied: u64) -> Self {
        Self { path, offset: 0, lines: 0, skip: copied }
    }

    /// Goes on after the first `copied` lines, wherever it was.
    pub fn go_on_after(&mut self, copied: u64) {
        if self.lines.max(self.skip) != copied {
            *self = Self::new(std::mem::take(&mut self.path), copied);
        }
    }

    /// The next lines that are whole, at most about a megabyte; none when there are none yet. Ask again until none come.
    ///
    /// # Errors
    /// When the file is there and cannot be read, or has become shorter: then it is not the one that was copied.
    pub fn read(&mut self) -> io::Result<Vec<Box<RawValue>>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(why) => return Err(why),
        };
        if file.metadata()?.len() < self.offset {
            return Err(io::Error::other("the record has become shorter"));
        }
        loop {
            file.seek(SeekFrom::Start(self.offset))?;
            let bytes = whole_lines(&mut file)?;
            if bytes.is_empty() {
                return Ok(Vec::new());
            }
            let entries = self.take(&bytes);
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Vec<Box<RawValue>> {
        self.offset += bytes.len() as u64;
        let mut entries = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.lines += 1;
            if self.lines <= self.skip {
                continue;
            }
            let text = String::from_utf8_lossy(line);
            // A line that is not JSON keeps its place: the numbers must stay those of the lines.
            let entry = RawValue::from_string(text.trim().to_owned())
                .ok()
                .filter(|entry| entry.get().starts_with('{'));
            entries.push(entry.unwrap_or_else(|| {
                let unreadable = serde_json::json!({ "type": "unreadable", "text": text });
                serde_json::value::to_raw_value(&unreadable).expect("a value is JSON")
            }));
        }
        entries
    }
}

/// About a megabyte, cut after the last line that is whole; more if one line alone is longer.
fn whole_lines(file: &mut File) -> io::Result<Vec<u8>> {
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

/// A record that is written down again, for a session that goes on here.
#[derive(Debug)]
pub struct Rebuild {
    file: io::BufWriter<File>,
    lines: u64,
}

impl Rebuild {
    /// At this place.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn begin(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(Self { file: io::BufWriter::new(File::create(path)?), lines: 0 })
    }

    /// Writes the next entries, each as one line, also those that stand in for others: the numbers must stay those of
    /// the lines.
    ///
    /// # Errors
    /// When the disk does not take them.
    pub fn add(&mut self, entries: &[JsonObject]) -> io::Result<()> {
        for entry in entries {
            // An entry may have been kept with line ends in it.
            for line in entry.text().lines() {
                self.file.write_all(line.as_bytes())?;
            }
            self.file.write_all(b"\n")?;
            self.lines += 1;
        }
        Ok(())
    }

    /// How many lines it has.
    ///
    /// # Errors
    /// When the disk does not take the last of them.
    pub fn end(mut self) -> io::Result<u64> {
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
    fn every_whole_line_is_read_once_and_a_torn_one_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let mut tail = Tail::new(path.clone(), 0);
        assert!(all(&mut tail).is_empty(), "a file that is not there yet");
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
        assert_eq!(again, rest, "a later life goes on after what was copied");
    }

    #[test]
    fn a_record_that_was_rebuilt_has_the_same_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), Path::new("/home/my app"), "s-1");
        assert!(path.ends_with("projects/-home-my-app/s-1.jsonl"));
        let entries: Vec<_> = ["{\"a\":1}", "{\"b\":\n2}"]
            .into_iter()
            .map(|text| JsonObject::parse(&RawValue::from_string(text.to_owned()).unwrap()).unwrap())
            .collect();
        let mut rebuild = Rebuild::begin(&path).unwrap();
        rebuild.add(&entries[..1]).unwrap();
        rebuild.add(&entries[1..]).unwrap();
        assert_eq!(rebuild.end().unwrap(), 2);
        let mut tail = Tail::new(path, 0);
        assert_eq!(all(&mut tail), ["{\"a\":1}", "{\"b\":2}"]);
        tail.go_on_after(2);
        assert!(all(&mut tail).is_empty());
        tail.go_on_after(1);
        assert_eq!(all(&mut tail), ["{\"b\":2}"], "as if it had not been read");
    }
}
