//! A sandbox's folder: what is in it, how it is made, and how it is taken away.

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

/// Where the logs of sandboxes that are gone are. A sandbox's own name never starts with a dot.
const LOGS: &str = ".logs";

/// How many logs of sandboxes that are gone are kept.
const KEPT_LOGS: usize = 100;

/// What is noted of a sandbox when it is made. Its variables are not: there are secrets among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// Which plane's it is.
    pub plane: String,
    /// For people.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Most memory that a process may have for its data.
    pub memory_gb: u32,
    /// How many processors it may use.
    pub cpu: u32,
}

/// What is noted of a worker before it begins.
#[derive(Debug, Serialize, Deserialize)]
struct Running {
    #[serde(flatten)]
    identity: Identity,
    boot: String,
}

/// A sandbox's folder, whether it is there or not.
#[derive(Debug, Clone)]
pub(super) struct Place {
    all: PathBuf,
    name: SandboxId,
}

impl Place {
    pub(super) fn new(all: &Path, name: &SandboxId) -> Self {
        Self { all: all.to_owned(), name: name.clone() }
    }

    /// The folder itself.
    pub(super) fn folder(&self) -> PathBuf {
        self.all.join(self.name.as_str())
    }

    /// A folder or a file in it.
    pub(super) fn inside(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// What its worker has printed.
    pub(super) fn log(&self) -> PathBuf {
        self.inside("worker.log")
    }

    pub(super) fn exists(&self) -> bool {
        self.folder().exists()
    }

    /// Makes it, as far as it is not there. The note comes last: without it the rest does not count.
    pub(super) fn make(&self, wish: &SandboxSpec) -> io::Result<()> {
        for name in ["workspace", "state", "home", "tmp"] {
            fs::create_dir_all(self.inside(name))?;
        }
        fs::set_permissions(self.folder(), fs::Permissions::from_mode(0o700))?;
        let SandboxSpec { plane, labels, resources, .. } = wish;
        let (plane, labels) = (plane.clone(), labels.clone());
        let note = Note { plane, labels, memory_gb: resources.memory_gb, cpu: resources.cpu };
        self.write("note.json", &note)
    }

    /// What was noted when it was made, if that came to its end.
    pub(super) fn note(&self) -> Option<Note> {
        serde_json::from_slice(&fs::read(self.inside("note.json")).ok()?).ok()
    }

    /// When that was, in seconds since 1970.
    pub(super) fn created_at_secs(&self) -> Option<i64> {
        let file =
            [self.inside("note.json"), self.folder()].into_iter().find_map(|path| path.metadata().ok());
        let since = file?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    }

    /// The worker that was started last, if that was since the machine began.
    pub(super) fn worker(&self) -> Option<Identity> {
        let noted: Running = serde_json::from_slice(&fs::read(self.inside("process.json")).ok()?).ok()?;
        (noted.boot == boot()).then_some(noted.identity)
    }

    /// Whether a worker was ever started in it.
    pub(super) fn was_started(&self) -> bool {
        self.inside("process.json").exists()
    }

    /// Notes which process the worker is.
    pub(super) fn note_worker(&self, identity: Identity) -> io::Result<()> {
        self.write("process.json", &Running { identity, boot: boot() })
    }

    /// Replaced as a whole, so that nobody ever reads half of it.
    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let part = self.inside(&format!("{name}.part"));
        fs::write(&part, serde_json::to_vec(value)?)?;
        fs::rename(part, self.inside(name))
    }

    /// Takes it away, but for the log, which is kept for a while. The note goes last: until then it is found.
    pub(super) fn remove(&self) -> io::Result<()> {
        let logs = self.all.join(LOGS);
        fs::create_dir_all(&logs)?;
        let kept = logs.join(format!("{}.log", self.name));
        absent_is_fine(fs::rename(self.log(), kept))?;
        for name in ["workspace", "state", "home", "tmp"] {
            remove_all(&self.inside(name))?;
        }
        remove_all(&self.folder())?;
        forget_old_logs(&logs)
    }

    /// The end of what its worker has printed, also after it is gone.
    pub(super) fn tail(&self, most: usize) -> io::Result<Tail> {
        let gone = self.all.join(LOGS).join(format!("{}.log", self.name));
        let file = match fs::File::open(self.log()) {
            Err(error) if error.kind() == ErrorKind::NotFound => fs::File::open(gone),
            opened => opened,
        };
        let mut file = match file {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Tail::default()),
            opened => opened?,
        };
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let start = file.metadata()?.len().saturating_sub(most);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(Tail::new(start, &bytes))
    }
}

/// All sandboxes of a folder.
pub(super) fn all(folder: &Path) -> io::Result<Vec<(SandboxId, Place)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().and_then(|name| SandboxId::parse(name).ok());
        if let (Some(name), true) = (name, entry.file_type()?.is_dir()) {
            let place = Place::new(folder, &name);
            found.push((name, place));
        }
    }
    Ok(found)
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Removes a folder also if something in it may not be written to, as in the caches of some package managers.
fn remove_all(folder: &Path) -> io::Result<()> {
    match absent_is_fine(fs::remove_dir_all(folder)) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            make_writable(folder)?;
            absent_is_fine(fs::remove_dir_all(folder))
        }
        done => done,
    }
}

fn make_writable(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Not what a link points to: that may be anywhere.
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

fn forget_old_logs(logs: &Path) -> io::Result<()> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(logs)? {
        let entry = entry?;
        if let Ok(written) = entry.metadata().and_then(|metadata| metadata.modified()) {
            kept.push((written, entry.path()));
        }
    }
    kept.sort();
    let extra = kept.len().saturating_sub(KEPT_LOGS);
    kept[..extra].iter().try_for_each(|(_, path)| absent_is_fine(fs::remove_file(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_the_last_hundred_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..KEPT_LOGS + 3 {
            let place = Place::new(folder.path(), &SandboxId::parse(format!("box-{number}")).unwrap());
            fs::create_dir_all(place.folder()).unwrap();
            let printed = format!("line {number:04}");
            fs::write(place.log(), &printed).unwrap();
            place.remove().unwrap();
            assert!(!place.exists());
            assert_eq!(place.tail(4).unwrap(), Tail { start: 5, text: printed[5..].to_owned() });
            assert_eq!(place.tail(100).unwrap(), Tail { start: 0, text: printed });
        }
        assert_eq!(fs::read_dir(folder.path().join(LOGS)).unwrap().count(), KEPT_LOGS);
    }

    #[test]
    fn folders_that_may_not_be_written_to_are_removed() {
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
