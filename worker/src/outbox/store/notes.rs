//! Small files that say how far the outbox is.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Writes a small file as a whole: whoever reads it finds the old one or the new one.
pub(super) fn note<T: Serialize>(path: &Path, what: &T) {
    let bytes = serde_json::to_vec(what).expect("what is noted is plain JSON");
    let written = replace(path, &bytes).or_else(|_| overwrite(path, bytes));
    // Sending goes on: it is what makes room. Only a crash before the next note would make it send something twice.
    if let Err(error) = written {
        tracing::warn!("Cannot write down how far the outbox is: {}", error.kind());
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let aside = path.with_extension("new");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&aside)?;
    file.write_all(bytes)?;
    fs::rename(aside, path)
}

/// A full disk has no room for a new file, but for what is already there. One write, and never shorter than before: then
/// whoever is killed leaves nothing half done.
fn overwrite(path: &Path, mut bytes: Vec<u8>) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    bytes.resize(bytes.len().max(length), b' ');
    file.write_all_at(&bytes, 0)
}

/// Reads a note, if there is one that can be read.
pub(super) fn recall<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_for_another_file_still_takes_notes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        note(&path, &[100_000]);
        // Nothing can be written there.
        fs::create_dir(dir.path().join("x.new")).unwrap();
        for value in [[7], [3_000_000]] {
            note(&path, &value);
            assert_eq!(recall::<[u64; 1]>(&path), Some(value));
        }
    }
}
