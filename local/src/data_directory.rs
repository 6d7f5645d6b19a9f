//! The data directory of a local plane: `plane` with its keys and its table, and `sandboxes`.

use crate::config::{SECRET_FILES, plane_directory};
use anyhow::{Context, bail};
use std::fs::{DirBuilder, File, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Names of the files of the table.
const TABLE_FILES: [&str; 3] = ["table.sqlite", "table.sqlite-wal", "table.sqlite-shm"];

/// A worker that runs as root adds an access control entry for its agents, which the mode shows as group execute.
const SEARCH_BY_GROUP: u32 = 0o010;

/// Creates the directory, or makes an existing one private: it holds the events of every org and all keys.
pub fn create(data: &Path) -> anyhow::Result<()> {
    for (directory, allowed) in [(data, SEARCH_BY_GROUP), (&plane_directory(data), 0)] {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        created.with_context(|| format!("cannot create the data directory {}", directory.display()))?;
        make_private(directory, 0o700, allowed)?;
    }
    Ok(())
}

/// Two planes on one directory would not receive each other's events. The operating system releases the lock when the
/// process exits.
pub fn lock(data: &Path) -> anyhow::Result<File> {
    let path = data.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!("another plane runs on the data in {}", data.display()),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// Earlier versions had these files in the data directory itself, which contains the sandboxes. The caller has the lock.
/// A start that was interrupted here continues at the next one.
pub fn move_files_of_earlier_versions(data: &Path) -> anyhow::Result<()> {
    for name in SECRET_FILES.into_iter().chain(TABLE_FILES) {
        let (old, new) = (data.join(name), plane_directory(data).join(name));
        if !old.exists() {
            continue;
        }
        if new.exists() {
            bail!("{} and {} both exist; delete the one that is not used", old.display(), new.display());
        }
        std::fs::rename(&old, &new)
            .with_context(|| format!("cannot move {} to {}", old.display(), new.display()))?;
        tracing::info!("Moved {} to {}", old.display(), new.display());
    }
    Ok(())
}

pub fn make_secrets_private(data: &Path) -> anyhow::Result<()> {
    let files = SECRET_FILES.map(|name| plane_directory(data).join(name));
    files.iter().filter(|file| file.exists()).try_for_each(|file| make_private(file, 0o600, 0))
}

/// Removes the permissions of group and others, except for `allowed`. The plane does not start if it cannot.
fn make_private(path: &Path, mode: u32, allowed: u32) -> anyhow::Result<()> {
    let shown = path.display();
    let before = std::fs::metadata(path).with_context(|| format!("cannot read the mode of {shown}"))?;
    let before = before.permissions().mode() & 0o777;
    if before & 0o077 & !allowed == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode)).with_context(|| {
        format!(
            "{shown} has mode {before:04o}, so other users can read it, and the mode cannot be changed; run \
             `chmod {mode:o} {shown}` as its owner, or choose another directory with --data"
        )
    })?;
    tracing::warn!("{shown} had mode {before:04o} and was readable by other users; it is {mode:04o} now");
    Ok(())
}
