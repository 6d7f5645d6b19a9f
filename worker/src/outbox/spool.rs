//! Lines on disk, numbered, until they are done with.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A queue of lines in files. Each file is named after the first line in it, and is deleted once all of its lines are
/// done with.
///
/// A line is written into the page cache with one call: it survives the process, however that ends, but not the
/// machine. Waiting for the disk would hold up the agent, and a sandbox that loses its machine loses its disk too.
#[derive(Debug)]
pub(super) struct Spool {
    dir: PathBuf,
    name: &'static str,
    segment_bytes: u64,
    segments: VecDeque<Segment>,
    writer: Option<File>,
    /// The first line that is not done with.
    head: u64,
    /// The number of the line that is written next.
    next: u64,
    cursor: Cursor,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    first: u64,
    lines: u64,
    bytes: u64,
}

/// Where the last read ended, so that the next one need not count lines.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    segment: u64,
    line: u64,
    offset: u64,
}

/// One line, as it was read back. Whether it is what was written, only its reader can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Its number.
    pub number: u64,
    /// Without the line end.
    pub bytes: Vec<u8>,
}

impl Spool {
    /// Opens what is there. A last line without an end is from a write that did not end, and is forgotten.
    pub fn open(dir: &Path, name: &'static str, segment_bytes: u64, head: Option<u64>) -> io::Result<Self> {
        let mut firsts = Vec::new();
        for entry in fs::read_dir(dir)? {
            let file = entry?.file_name();
            let number = file.to_str().and_then(|file| file.strip_prefix(name)?.strip_prefix('-'));
            firsts.extend(number.and_then(|file| file.strip_suffix(".jsonl")?.parse::<u64>().ok()));
        }
        firsts.sort_unstable();
        let first = firsts.first().copied();
        let head = head.or(first).unwrap_or(1).max(1);
        let mut spool = Self {
            dir: dir.to_owned(),
            name,
            segment_bytes,
            segments: VecDeque::new(),
            writer: None,
            head,
            next: head,
            cursor: Cursor::default(),
        };
        for first in firsts {
            let (lines, bytes) = whole_lines(&spool.path(first))?;
            spool.segments.push_back(Segment { first, lines, bytes });
        }
        if let Some(last) = spool.segments.back().copied() {
            spool.next = head.max(last.first + last.lines);
            // After lines that are known to be missing a new file begins, or the numbers would be wrong.
            if spool.next == last.first + last.lines {
                let file = OpenOptions::new().append(true).open(spool.path(last.first))?;
                file.set_len(last.bytes)?;
                spool.writer = Some(file);
            }
        }
        spool.head = spool.head.max(first.unwrap_or(0));
        spool.done(spool.head - 1);
        Ok(spool)
    }

    /// Writes one line, which must hold no line end, and gives its number. Whole or not at all.
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
        let segment = self.segments.back_mut().expect("a file that is written to is a segment");
        let writer = self.writer.as_mut().expect("it was opened above");
        let mut whole = String::with_capacity(line.len() + 1);
        whole.push_str(line);
        whole.push('\n');
        if let Err(error) = writer.write_all(whole.as_bytes()) {
            // Half a line would spoil the next one.
            writer.set_len(segment.bytes)?;
            return Err(error);
        }
        segment.bytes += whole.len() as u64;
        segment.lines += 1;
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Lines from `first` on: at most so many, and so many bytes unless the first alone has more.
    pub fn read(&mut self, first: u64, most: u64, most_bytes: u64) -> io::Result<Vec<Record>> {
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
                    records.len() as u64 >= most || (bytes + length > most_bytes && !records.is_empty());
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

    /// Whatever was written up to this line is done with.
    pub fn done(&mut self, through: u64) {
        self.head = self.head.max(through + 1);
        while let Some(segment) = self.segments.front().copied() {
            let written_to = self.segments.len() == 1 && self.writer.is_some();
            // A file that is written to goes too once it is worth the trouble.
            let small = segment.bytes < self.segment_bytes / 16;
            if segment.first + segment.lines > self.head || (written_to && (small || self.head < self.next)) {
                break;
            }
            self.segments.pop_front();
            if written_to {
                self.writer = None;
            }
            if let Err(error) = fs::remove_file(self.path(segment.first)) {
                tracing::warn!("Cannot remove a file of the spool: {}", error.kind());
            }
        }
    }

    /// The first line that is not done with.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The number of the line that is written next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// How many lines wait.
    pub fn waiting(&self) -> u64 {
        self.next - self.head
    }

    /// What it takes on disk.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    fn path(&self, first: u64) -> PathBuf {
        self.dir.join(format!("{}-{first:020}.jsonl", self.name))
    }
}

/// How many lines a file has that end, and how long they are together.
fn whole_lines(path: &Path) -> io::Result<(u64, u64)> {
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
    fn a_torn_last_line_is_forgotten() {
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
    fn files_are_deleted_once_they_are_done_with_and_numbers_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path(), "x", 64, None).unwrap();
        for _ in 0..100 {
            spool.append("0123456789").unwrap();
        }
        assert_eq!(spool.bytes(), 1_100);
        spool.done(99);
        assert!(spool.bytes() < 80, "{}", spool.bytes());
        spool.done(100);
        assert_eq!((spool.bytes(), spool.waiting()), (0, 0));
        drop(spool);
        let mut spool = Spool::open(dir.path(), "x", 64, Some(101)).unwrap();
        assert_eq!(spool.append("next").unwrap(), 101);
        assert_eq!(texts(&mut spool, 101), ["next"]);
    }

    proptest! {
        /// Whatever is written, read, done with and opened again: what was not done with is read back, in order.
        #[test]
        fn what_was_written_is_read_back(steps in proptest::collection::vec((0..5u8, 1..30usize), 0..80)) {
            let dir = tempfile::tempdir().unwrap();
            let mut spool = Spool::open(dir.path(), "x", 100, None).unwrap();
            let (mut head, mut next) = (1, 1);
            for (step, size) in steps {
                match step {
                    0 | 1 => {
                        prop_assert_eq!(spool.append(&format!("{next} {}", "y".repeat(size))).unwrap(), next);
                        next += 1;
                    }
                    2 => {
                        head = next.min(head + size as u64 % 7);
                        spool.done(head - 1);
                    }
                    3 => spool = Spool::open(dir.path(), "x", 100, Some(head)).unwrap(),
                    _ => {
                        let records = spool.read(head, size as u64, 200).unwrap();
                        for (record, number) in records.iter().zip(head..) {
                            prop_assert_eq!(record.number, number);
                        }
                        prop_assert_eq!(records.is_empty(), head == next);
                    }
                }
                let numbers = texts(&mut spool, head).iter().map(|text| text.split(' ').next().unwrap().parse().unwrap()).collect::<Vec<u64>>();
                prop_assert_eq!(numbers, (head..next).collect::<Vec<_>>());
            }
        }
    }
}
