//! Lock files that a killed git process has left behind. Git writes nothing while they exist.
//!
//! Those of references and files that only Sunaba writes are removed. All others may be of a process of the user that is
//! still writing: they are reported, with what to do.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// A process of an earlier plane may live a little longer than that plane.
const MIN_AGE: Duration = Duration::from_secs(60);

/// Directories and files of a git directory that only Sunaba writes, one process at a time.
const OWN_REFERENCES: &str = "refs/sunaba";
const OWN_INDEX_LOCK: &str = "sunaba.index.lock";

/// Removes leftovers of Sunaba. The caller holds the lock of the repository.
pub(super) fn remove(git_directory: &Path) {
    let mut waiting = vec![git_directory.join(OWN_REFERENCES)];
    let mut locks = vec![git_directory.join(OWN_INDEX_LOCK)];
    while let Some(directory) = waiting.pop() {
        // It does not exist before the first pull request.
        let Ok(entries) = fs::read_dir(directory) else { continue };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                Ok(kind) if kind.is_file() && is_lock(&entry.path()) => locks.push(entry.path()),
                _ => {}
            }
        }
    }
    for lock in locks {
        if age(&lock).is_some_and(|age| age >= MIN_AGE) && fs::remove_file(&lock).is_ok() {
            tracing::warn!("Removed {}, which a killed git process had left", lock.display());
        }
    }
}

fn is_lock(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "lock")
}

/// The lock that git could not create, from its error message.
pub(super) fn named_in(stderr: &str) -> Option<&str> {
    let (before, _) = stderr.split_once(".lock': File exists")?;
    let start = before.rfind('\'')? + 1;
    stderr.get(start..before.len() + ".lock".len())
}

/// Which file is in the way, since when, and what a person can do.
pub(super) fn describe(lock: &Path) -> String {
    let since = match age(lock).map(|age| age.as_secs() / 60) {
        None => return format!("{} was in the way, and is gone now", lock.display()),
        Some(0) => "less than a minute".to_owned(),
        Some(1) => "a minute".to_owned(),
        Some(minutes) => format!("{minutes} minutes"),
    };
    format!(
        "{} has existed for {since}. Another git process is writing, or one was killed; in that case remove the file",
        lock.display()
    )
}

/// By the clock of the system, like the times of files.
fn age(path: &Path) -> Option<Duration> {
    Some(fs::metadata(path).ok()?.modified().ok()?.elapsed().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::path::PathBuf;

    fn lock(directory: &Path, name: &str, age: Duration) -> PathBuf {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = File::create(&path).unwrap();
        file.set_modified(file.metadata().unwrap().modified().unwrap() - age).unwrap();
        path
    }

    #[test]
    fn only_old_locks_of_sunaba_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (MIN_AGE + Duration::from_secs(1), Duration::ZERO);
        let removed = [
            lock(folder.path(), "refs/sunaba/pulls/1.lock", old),
            lock(folder.path(), "sunaba.index.lock", old),
        ];
        let kept = [
            lock(folder.path(), "refs/sunaba/pulls/2.lock", new),
            lock(folder.path(), "refs/sunaba/pulls/2", old),
            lock(folder.path(), "refs/heads/main.lock", old),
            lock(folder.path(), "index.lock", old),
        ];
        remove(folder.path());
        assert!(removed.iter().all(|path| !path.exists()));
        assert!(kept.iter().all(|path| path.exists()));
    }

    #[test]
    fn lock_of_another_process_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = lock(folder.path(), "index.lock", Duration::from_secs(180));
        let stderr =
            format!("fatal: Unable to create '{}': File exists.\n\nAnother git process", path.display());
        assert_eq!(named_in(&stderr), path.to_str());
        assert_eq!(named_in("fatal: not a git repository"), None);
        let text = describe(&path);
        assert!(text.contains("index.lock has existed for 3 minutes"), "{text}");
        assert!(text.ends_with("remove the file"), "{text}");
        fs::remove_file(&path).unwrap();
        assert!(describe(&path).ends_with("is gone now"));
    }
}
