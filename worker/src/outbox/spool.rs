//! A queue of numbered lines on disk.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A queue of lines in segment files. Each file is named after its first line and deleted when all of its lines are
/// acknowledged.
///
/// A line is written to the page cache with one call: it survives a crash of the process, but not of the machine. An
/// fsync would delay the agent, and a sandbox that loses its machine loses its disk too.
#[derive(Debug)]
pub(super) struct Spool {
    dir: PathBuf,
    name: &'static str,
    segment_bytes: u64,
    segments: VecDeque<Segment>,
    writer: Option<File>,
    /// First line that is not acknowledged.
    front: u64,
    /// Number of the next line to write.
    next: u64,
    cursor: Cursor,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    first: u64,
    lines: u64,
    bytes: u64,
}

/// Where the last read ended, so that the next one does not have to count lines.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    segment: u64,
    line: u64,
    offset: u64,
}

/// A line as read from disk. The caller checks whether it is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub number: u64,
    /// Without the line break.
    pub bytes: Vec<u8>,
}

impl Spool {
    /// Opens the existing files. An incomplete last line was left by a crash and is discarded.
    pub fn open(dir: &Path, name: &'static str, segment_bytes: u64, front: Option<u64>) -> io::Result<Self> {
        let mut firsts = Vec::new();
        for entry in fs::read_dir(dir)? {
            let file = entry?.file_name();
            let number = file.to_str().and_then(|file| file.strip_prefix(name)?.strip_prefix('-'));
            firsts.extend(number.and_then(|file| file.strip_suffix(".jsonl")?.parse::<u64>().ok()));
        }
        firsts.sort_unstable();
        let first = firsts.first().copied();
        let front = front.or(first).unwrap_or(1).max(1);
        let mut spool = Self {
            dir: dir.to_owned(),
            name,
            segment_bytes,
            segments: VecDeque::new(),
            writer: None,
            front,
            next: front,
            cursor: Cursor::default(),
        };
        for first in firsts {
            let (lines, bytes) = complete_lines(&spool.path(first))?;
            spool.segments.push_back(Segment { first, lines, bytes });
        }
        if let Some(last) = spool.segments.back().copied() {
            spool.next = front.max(last.first + last.lines);
            // If lines are missing at the end, start a new file. Otherwise the line numbers would be wrong.
            if spool.next == last.first + last.lines {
                let file = OpenOptions::new().append(true).open(spool.path(last.first))?;
                file.set_len(last.bytes)?;
                spool.writer = Some(file);
            }
        }
        spool.front = spool.front.max(first.unwrap_or(0));
        spool.acknowledge(spool.front - 1);
        Ok(spool)
    }

    /// Appends a line atomically and returns its number. It must not contain a line break.
    pub fn append(&mut self, line: &str) -> io::Result<u64> {
        if self.segments.back().is_none_or(|segment| segment.bytes >= self.segment_bytes) {
            self.writer = None;
        }
        if self.writer.is_none() {
            let file = OpenOptions::new().create(true).append(true).mode(0o600).open(self.path(self.next))?;
            file.set_len(0)?;
            self.writer = Some(file);
            self.segments.push_back(Segment { first: self.next, lines: 0, bytes: 0 });
        }
        let segment = self.segments.back_mut().expect("the open file is the last segment");
        let writer = self.writer.as_mut().expect("the file was opened above");
        let mut text = String::with_capacity(line.len() + 1);
        text.push_str(line);
        text.push('\n');
        if let Err(error) = writer.write_all(text.as_bytes()) {
            // Remove an incomplete line, which would corrupt the next one.
            writer.set_len(segment.bytes)?;
            return Err(error);
        }
        segment.bytes += text.len() as u64;
        segment.lines += 1;
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Reads lines from `first` on, within the limits. The first line is returned even if it is larger than
    /// `max_bytes`.
    pub fn read(&mut self, first: u64, max_lines: u64, max_bytes: u64) -> io::Result<Vec<Record>> {
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut line = first;
        let mut index = self.segments.iter().position(|segment| segment.first + segment.lines > first);
        while let Some(segment) = index.and_then(|index| self.segments.get(index)).copied() {
            line = line.max(segment.first);
            let mut reader = BufReader::new(File::open(self.path(segment.first))?);
            let mut offset = 0;
            if self.cursor.segment == segment.first && self.cursor.line == line {
                offset = self.cursor.offset;
                reader.seek(SeekFrom::Start(offset))?;
            } else {
                for _ in segment.first..line {
                    offset += reader.skip_until(b'\n')? as u64;
                }
            }
            while line < segment.first + segment.lines {
                let mut text = Vec::new();
                let length = reader.read_until(b'\n', &mut text)? as u64;
                let full =
                    records.len() as u64 >= max_lines || (bytes + length > max_bytes && !records.is_empty());
                if full {
                    self.cursor = Cursor { segment: segment.first, line, offset };
                    return Ok(records);
                }
                text.pop();
                records.push(Record { number: line, bytes: text });
                bytes += length;
                offset += length;
                line += 1;
            }
            self.cursor = Cursor { segment: segment.first, line, offset };
            index = index.map(|index| index + 1);
        }
        Ok(records)
    }

    /// Removes all lines up to this one.
    pub fn acknowledge(&mut self, through: u64) {
        self.front = self.front.max(through + 1);
        while let Some(segment) = self.segments.front().copied() {
            let is_open = self.segments.len() == 1 && self.writer.is_some();
            // Delete even the open file if it is fully acknowledged and not small.
            let small = segment.bytes < self.segment_bytes / 16;
            if segment.first + segment.lines > self.front || (is_open && (small || self.front < self.next)) {
                break;
            }
            self.segments.pop_front();
            if is_open {
                self.writer = None;
            }
            if let Err(error) = fs::remove_file(self.path(segment.first)) {
                tracing::warn!("Cannot delete a spool file: {}", error.kind());
            }
        }
    }

    /// First line that is not acknowledged.
    pub fn front(&self) -> u64 {
        self.front
    }

    /// Number of the next line to write.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Number of lines that are not acknowledged.
    pub fn waiting(&self) -> u64 {
        self.next - self.front
    }

    /// Size on disk.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    fn path(&self, first: u64) -> PathBuf {
        self.dir.join(format!("{}-{first:020}.jsonl", self.name))
    }
}

/// Number of complete lines in a file, and their total size.
fn complete_lines(path: &Path) -> io::Result<(u64, u64)> {
    let mut reader = File::open(path)?;
    let mut buffer = vec![0; 64 * 1024];
    let (mut lines, mut bytes, mut read_bytes) = (0, 0, 0);
    loop {
        let length = reader.read(&mut buffer)?;
        if length == 0 {
            return Ok((lines, bytes));
        }
        let ends = buffer[..length].iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        for (at, _) in ends {
            lines += 1;
            bytes = read_bytes + at as u64 + 1;
        }
        read_bytes += length as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(spool: &mut Spool, first: u64) -> Vec<String> {
        let records = spool.read(first, 1_000, u64::MAX).unwrap();
        records.into_iter().map(|record| String::from_utf8(record.bytes).unwrap()).collect()
    }

    #[test]
    fn incomplete_last_line_is_discarded() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path(), "x", 1_000, None).unwrap();
        spool.append("one").unwrap();
        spool.append("two").unwrap();
        let file = spool.path(1);
        drop(spool);
        OpenOptions::new().append(true).open(&file).unwrap().write_all(b"thr").unwrap();
        let mut spool = Spool::open(dir.path(), "x", 1_000, None).unwrap();
        assert_eq!(spool.append("four").unwrap(), 3);
        assert_eq!(texts(&mut spool, 1), ["one", "two", "four"]);
    }

    #[test]
    fn acknowledged_files_are_deleted_and_numbering_continues() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path(), "x", 64, None).unwrap();
        for _ in 0..100 {
            spool.append("0123456789").unwrap();
        }
        assert_eq!(spool.bytes(), 1_100);
        spool.acknowledge(99);
        assert!(spool.bytes() < 80, "{}", spool.bytes());
        spool.acknowledge(100);
        assert_eq!((spool.bytes(), spool.waiting()), (0, 0));
        drop(spool);
        let mut spool = Spool::open(dir.path(), "x", 64, Some(101)).unwrap();
        assert_eq!(spool.append("next").unwrap(), 101);
        assert_eq!(texts(&mut spool, 101), ["next"]);
    }

    proptest! {
        /// Any sequence of append, read, acknowledge and reopen: unacknowledged lines are read back in order.
        #[test]
        fn unacknowledged_lines_are_read_back_in_order(steps in proptest::collection::vec((0..5u8, 1..30usize), 0..80)) {
            let dir = tempfile::tempdir().unwrap();
            let mut spool = Spool::open(dir.path(), "x", 100, None).unwrap();
            let (mut front, mut next) = (1, 1);
            for (step, size) in steps {
                match step {
                    0 | 1 => {
                        prop_assert_eq!(spool.append(&format!("{next} {}", "y".repeat(size))).unwrap(), next);
                        next += 1;
                    }
                    2 => {
                        front = next.min(front + size as u64 % 7);
                        spool.acknowledge(front - 1);
                    }
                    3 => spool = Spool::open(dir.path(), "x", 100, Some(front)).unwrap(),
                    _ => {
                        let records = spool.read(front, size as u64, 200).unwrap();
                        for (record, number) in records.iter().zip(front..) {
                            prop_assert_eq!(record.number, number);
                        }
                        prop_assert_eq!(records.is_empty(), front == next);
                    }
                }
                let numbers = texts(&mut spool, front).iter().map(|text| text.split(' ').next().unwrap().parse().unwrap()).collect::<Vec<u64>>();
                prop_assert_eq!(numbers, (front..next).collect::<Vec<_>>());
            }
        }
    }
}
