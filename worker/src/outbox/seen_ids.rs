//! Ids of emitted events, persisted across restarts. Used for deduplication.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Minimum number of ids that are remembered.
pub const REMEMBERED_IDS: usize = 65_536;
const IDS_PER_FILE: usize = REMEMBERED_IDS / 2;
const KEY_BYTES: usize = 16;

/// Hash of an id: fixed size, and ids are not stored in plaintext.
pub(super) type Key = u128;

pub(super) fn key(id: &str) -> Key {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, id.as_bytes()).as_u128()
}

/// The most recent ids: up to two full files and the one that is being written.
#[derive(Debug)]
pub(super) struct SeenIds {
    dir: PathBuf,
    keys: HashSet<Key>,
    files: VecDeque<(u64, Vec<Key>)>,
    writer: Option<File>,
}

impl SeenIds {
    pub fn open(dir: &Path) -> io::Result<Self> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(dir)? {
            let file = entry?.file_name();
            numbers.extend(file.to_str().and_then(|file| file.strip_prefix("seen-")?.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        let mut seen =
            Self { dir: dir.to_owned(), keys: HashSet::new(), files: VecDeque::new(), writer: None };
        for number in numbers {
            let bytes = fs::read(seen.path(number))?;
            let (keys, _) = bytes.as_chunks::<KEY_BYTES>();
            let keys: Vec<Key> = keys.iter().map(|key| Key::from_be_bytes(*key)).collect();
            seen.keys.extend(&keys);
            seen.files.push_back((number, keys));
        }
        if let Some((number, keys)) = seen.files.back() {
            let file = OpenOptions::new().append(true).open(seen.path(*number))?;
            file.set_len((keys.len() * KEY_BYTES) as u64)?;
            seen.writer = Some(file);
        }
        Ok(seen)
    }

    pub fn contains(&self, key: Key) -> bool {
        self.keys.contains(&key)
    }

    /// Whether old ids were deleted.
    pub fn has_evicted(&self) -> bool {
        self.files.front().is_some_and(|(number, _)| *number > 1)
    }

    /// Events are written to the spool before their ids are written here. The spool is scanned when it is opened, so a
    /// crash in between emits no event twice.
    pub fn insert(&mut self, key: Key) {
        if !self.keys.insert(key) {
            return;
        }
        if let Err(error) = self.write(key) {
            tracing::warn!("Cannot save the id of an event: {}", error.kind());
        }
    }

    fn write(&mut self, key: Key) -> io::Result<()> {
        if self.files.back().is_none_or(|(_, keys)| keys.len() >= IDS_PER_FILE) {
            let number = self.files.back().map_or(1, |(number, _)| number + 1);
            let options = OpenOptions::new().create(true).append(true).mode(0o600).open(self.path(number));
            self.files.push_back((number, Vec::new()));
            self.writer = None;
            self.writer = Some(options?);
        }
        let (_, keys) = self.files.back_mut().expect("a file was added above if there was none");
        keys.push(key);
        if let Some(writer) = &mut self.writer {
            writer.write_all(&key.to_be_bytes())?;
        }
        if self.files.len() > 3 {
            let (number, evicted) = self.files.pop_front().expect("there are more than three files");
            for key in evicted {
                self.keys.remove(&key);
            }
            fs::remove_file(self.path(number))?;
        }
        Ok(())
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("seen-{number:08}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_ids_are_remembered_and_old_ones_are_evicted() {
        let dir = tempfile::tempdir().unwrap();
        let mut seen = SeenIds::open(dir.path()).unwrap();
        assert!(!seen.has_evicted());
        let last = 4 * REMEMBERED_IDS as u128;
        for id in 0..=last {
            seen.insert(id);
        }
        for seen in [seen, SeenIds::open(dir.path()).unwrap()] {
            assert!((0..REMEMBERED_IDS as u128).all(|age| seen.contains(last - age)));
            assert!(!seen.contains(1) && seen.has_evicted());
            assert!(seen.keys.len() <= 2 * REMEMBERED_IDS);
        }
    }
}
