//! Small files that store the upload positions.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Replaces a file atomically.
pub(super) fn save<T: Serialize>(path: &Path, value: &T) {
    let bytes = serde_json::to_vec(value).expect("a checkpoint serializes");
    let written = replace(path, &bytes).or_else(|_| overwrite(path, bytes));
    // Continue sending, which frees disk space. Only a crash before the next save would send something twice.
    if let Err(error) = written {
        tracing::warn!("Cannot save an upload position: {}", error.kind());
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    fs::rename(temporary, path)
}

/// Fallback for a full disk: overwrites the file in place with a single write that never shortens it, so that a crash
/// leaves nothing half-written.
fn overwrite(path: &Path, mut bytes: Vec<u8>) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    bytes.resize(bytes.len().max(length), b' ');
    file.write_all_at(&bytes, 0)
}

/// `None` if the file is missing or invalid.
pub(super) fn load<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_is_saved_without_space_for_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        save(&path, &[100_000]);
        // Makes the temporary file unwritable.
        fs::create_dir(dir.path().join("x.new")).unwrap();
        for value in [[7], [3_000_000]] {
            save(&path, &value);
            assert_eq!(load::<[u64; 1]>(&path), Some(value));
        }
    }
}
