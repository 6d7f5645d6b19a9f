//! Which events were told before, also in an earlier life.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// How many ids are remembered at least.
pub const REMEMBERED_IDS: usize = 65_536;
const IDS_PER_FILE: usize = REMEMBERED_IDS / 2;
const KEY_BYTES: usize = 16;

/// Stands for an id: all are the same size, and none is kept in clear.
pub(super) type Key = u128;

/// The key of an id.
pub(super) fn key(id: &str) -> Key {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, id.as_bytes()).as_u128()
}

/// The ids of the last events: two full files of them and one that is being written.
#[derive(Debug)]
pub(super) struct Known {
    dir: PathBuf,
    keys: HashSet<Key>,
    files: VecDeque<(u64, Vec<Key>)>,
    writer: Option<File>,
}

impl Known {
    /// Reads what is there.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(dir)? {
            let file = entry?.file_name();
            numbers.extend(file.to_str().and_then(|file| file.strip_prefix("known-")?.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        let mut known =
            Self { dir: dir.to_owned(), keys: HashSet::new(), files: VecDeque::new(), writer: None };
        for number in numbers {
            let bytes = fs::read(known.path(number))?;
            let (whole, _) = bytes.as_chunks::<KEY_BYTES>();
            let keys: Vec<Key> = whole.iter().map(|key| Key::from_be_bytes(*key)).collect();
            known.keys.extend(&keys);
            known.files.push_back((number, keys));
        }
        if let Some((number, keys)) = known.files.back() {
            let file = OpenOptions::new().append(true).open(known.path(*number))?;
            file.set_len((keys.len() * KEY_BYTES) as u64)?;
            known.writer = Some(file);
        }
        Ok(known)
    }

    /// Whether it was told before.
    pub fn contains(&self, key: Key) -> bool {
        self.keys.contains(&key)
    }

    /// Whether there were more than it remembers.
    pub fn has_forgotten(&self) -> bool {
        self.files.front().is_some_and(|(number, _)| *number > 1)
    }

    /// Notes one that was told. Events are written before their ids, and what is in the spool is looked at when it is
    /// opened: so none is told twice for want of its id.
    pub fn insert(&mut self, key: Key) {
        if !self.keys.insert(key) {
            return;
        }
        if let Err(error) = self.write(key) {
            tracing::warn!("Cannot remember the id of an event: {}", error.kind());
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
        let (_, keys) = self.files.back_mut().expect("one was added if there was none");
        keys.push(key);
        if let Some(writer) = &mut self.writer {
            writer.write_all(&key.to_be_bytes())?;
        }
        if self.files.len() > 3 {
            let (number, forgotten) = self.files.pop_front().expect("there are four");
            for key in forgotten {
                self.keys.remove(&key);
            }
            fs::remove_file(self.path(number))?;
        }
        Ok(())
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("known-{number:08}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ids_are_remembered_and_old_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut known = Known::open(dir.path()).unwrap();
        assert!(!known.has_forgotten());
        let last = 4 * REMEMBERED_IDS as u128;
        for id in 0..=last {
            known.insert(id);
        }
        for known in [known, Known::open(dir.path()).unwrap()] {
            assert!((0..REMEMBERED_IDS as u128).all(|age| known.contains(last - age)));
            assert!(!known.contains(1) && known.has_forgotten());
            assert!(known.keys.len() <= 2 * REMEMBERED_IDS);
        }
    }
}
