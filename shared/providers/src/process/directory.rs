//! The directory of a sandbox: its contents, creation and removal.

use super::table::{Identity, boot};
use crate::{SandboxSpec, Tail};
use domain::SandboxId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Directory for the logs of deleted sandboxes. No sandbox name starts with a dot.
const LOGS: &str = ".logs";

/// Maximum number of logs kept of deleted sandboxes.
const MAX_KEPT_LOGS: usize = 100;

/// Written when the sandbox is created. Excludes its environment variables, which include secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Metadata {
    pub plane: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Memory limit per process.
    pub memory_gb: u32,
    pub cpu: u32,
}

/// Written before the worker starts to run.
#[derive(Debug, Serialize, Deserialize)]
struct WorkerRecord {
    #[serde(flatten)]
    identity: Identity,
    boot: String,
}

/// The directory of a sandbox, which may or may not exist.
#[derive(Debug, Clone)]
pub(super) struct SandboxDirectory {
    parent: PathBuf,
    name: SandboxId,
}

impl SandboxDirectory {
    pub(super) fn new(parent: &Path, name: &SandboxId) -> Self {
        Self { parent: parent.to_owned(), name: name.clone() }
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.parent.join(self.name.as_str())
    }

    pub(super) fn inside(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.inside("worker.log")
    }

    pub(super) fn exists(&self) -> bool {
        self.folder().exists()
    }

    /// Idempotent. The metadata is written last: without it the sandbox does not exist.
    pub(super) fn create(&self, spec: &SandboxSpec) -> io::Result<()> {
        for name in ["workspace", "state", "home", "tmp"] {
            fs::create_dir_all(self.inside(name))?;
        }
        fs::set_permissions(self.folder(), fs::Permissions::from_mode(0o700))?;
        let SandboxSpec { plane, labels, resources, .. } = spec;
        let (plane, labels) = (plane.clone(), labels.clone());
        let metadata = Metadata { plane, labels, memory_gb: resources.memory_gb, cpu: resources.cpu };
        self.write("sandbox.json", &metadata)
    }

    /// `None` unless creation was completed.
    pub(super) fn metadata(&self) -> Option<Metadata> {
        serde_json::from_slice(&fs::read(self.inside("sandbox.json")).ok()?).ok()
    }

    /// Unix time of its creation.
    pub(super) fn created_at_secs(&self) -> Option<i64> {
        let file =
            [self.inside("sandbox.json"), self.folder()].into_iter().find_map(|path| path.metadata().ok());
        let since = file?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    }

    /// The last worker, if it was started since the last boot.
    pub(super) fn worker(&self) -> Option<Identity> {
        let record: WorkerRecord =
            serde_json::from_slice(&fs::read(self.inside("worker.json")).ok()?).ok()?;
        (record.boot == boot()).then_some(record.identity)
    }

    pub(super) fn was_started(&self) -> bool {
        self.inside("worker.json").exists()
    }

    pub(super) fn record_worker(&self, identity: Identity) -> io::Result<()> {
        self.write("worker.json", &WorkerRecord { identity, boot: boot() })
    }

    /// Writes atomically, so that a reader never sees half a file.
    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let part = self.inside(&format!("{name}.part"));
        fs::write(&part, serde_json::to_vec(value)?)?;
        fs::rename(part, self.inside(name))
    }

    /// Removes everything but the log, which is kept for a while. The metadata goes last, so that an interrupted removal is
    /// found and retried.
    pub(super) fn remove(&self) -> io::Result<()> {
        let logs = self.parent.join(LOGS);
        fs::create_dir_all(&logs)?;
        let kept = logs.join(format!("{}.log", self.name));
        ignore_not_found(fs::rename(self.log(), kept))?;
        for name in ["workspace", "state", "home", "tmp"] {
            remove_all(&self.inside(name))?;
        }
        remove_all(&self.folder())?;
        delete_old_logs(&logs)
    }

    /// The tail of the worker's log, also after the sandbox is deleted.
    pub(super) fn tail(&self, max_bytes: usize) -> io::Result<Tail> {
        let kept = self.parent.join(LOGS).join(format!("{}.log", self.name));
        let file = match fs::File::open(self.log()) {
            Err(error) if error.kind() == ErrorKind::NotFound => fs::File::open(kept),
            opened => opened,
        };
        let mut file = match file {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Tail::default()),
            opened => opened?,
        };
        let max_bytes = u64::try_from(max_bytes).unwrap_or(u64::MAX);
        let start = file.metadata()?.len().saturating_sub(max_bytes);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(max_bytes).read_to_end(&mut bytes)?;
        Ok(Tail::new(start, &bytes))
    }
}

/// All sandboxes in a parent directory.
pub(super) fn all(folder: &Path) -> io::Result<Vec<(SandboxId, SandboxDirectory)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().and_then(|name| SandboxId::parse(name).ok());
        if let (Some(name), true) = (name, entry.file_type()?.is_dir()) {
            let directory = SandboxDirectory::new(folder, &name);
            found.push((name, directory));
        }
    }
    Ok(found)
}

fn ignore_not_found(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Also removes read-only directories, such as those in the caches of some package managers.
fn remove_all(folder: &Path) -> io::Result<()> {
    match ignore_not_found(fs::remove_dir_all(folder)) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            make_writable(folder)?;
            ignore_not_found(fs::remove_dir_all(folder))
        }
        done => done,
    }
}

fn make_writable(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Does not follow links.
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

fn delete_old_logs(logs: &Path) -> io::Result<()> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(logs)? {
        let entry = entry?;
        if let Ok(written) = entry.metadata().and_then(|metadata| metadata.modified()) {
            kept.push((written, entry.path()));
        }
    }
    kept.sort();
    let extra = kept.len().saturating_sub(MAX_KEPT_LOGS);
    kept[..extra].iter().try_for_each(|(_, path)| ignore_not_found(fs::remove_file(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_logs_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..MAX_KEPT_LOGS + 3 {
            let directory =
                SandboxDirectory::new(folder.path(), &SandboxId::parse(format!("box-{number}")).unwrap());
            fs::create_dir_all(directory.folder()).unwrap();
            let printed = format!("line {number:04}");
            fs::write(directory.log(), &printed).unwrap();
            directory.remove().unwrap();
            assert!(!directory.exists());
            assert_eq!(directory.tail(4).unwrap(), Tail { start: 5, text: printed[5..].to_owned() });
            assert_eq!(directory.tail(100).unwrap(), Tail { start: 0, text: printed });
        }
        assert_eq!(fs::read_dir(folder.path().join(LOGS)).unwrap().count(), MAX_KEPT_LOGS);
    }

    #[test]
    fn read_only_directories_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("cache/module");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("file"), "text").unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o500)).unwrap();
        make_writable(&folder.path().join("cache")).unwrap();
        assert_eq!(inner.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        remove_all(&folder.path().join("cache")).unwrap();
        remove_all(&folder.path().join("cache")).unwrap();
    }
}
