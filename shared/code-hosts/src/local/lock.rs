//! One writer at a time, of all processes on this machine. The lock ends with the process that holds it.

use super::leftovers;
use crate::{Failure, Reason};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// In the git directory. It stays there: removing it would let a process lock a file that others no longer see.
const FILE: &str = "sunaba.lock";

const RETRY_DELAY: Duration = Duration::from_millis(20);

/// Unlocks when it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) async fn acquire(git_directory: &Path, timeout: Duration) -> Result<Self, Failure> {
        let path = git_directory.join(FILE);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| {
            let reason = match error.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Reason::PushForbidden,
                _ => Reason::Unreachable,
            };
            Failure::new(reason, format!("the repository cannot be written: {error}"))
        })?;
        let end = Instant::now() + timeout;
        loop {
            match file.try_lock() {
                Ok(()) => {
                    leftovers::remove(git_directory);
                    return Ok(Self { _file: file });
                }
                Err(TryLockError::WouldBlock) if Instant::now() < end => sleep(RETRY_DELAY).await,
                Err(TryLockError::WouldBlock) => {
                    let reason = Reason::Busy { retry_after_secs: None };
                    return Err(Failure::new(reason, "another process writes to the repository"));
                }
                Err(TryLockError::Error(error)) => {
                    let message = format!("the repository cannot be locked: {error}");
                    return Err(Failure::new(Reason::Unreachable, message));
                }
            }
        }
    }
}
