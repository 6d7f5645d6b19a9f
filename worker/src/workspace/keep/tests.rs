use super::*;
use crate::confinement::unconfined;
use std::fs as files;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["root", "state", "unpacked"] {
            files::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        files::create_dir_all(path.parent().unwrap()).unwrap();
        files::write(path, text).unwrap();
    }

    fn git(&self, directory: &str, arguments: &[&str]) {
        let status = Command::new("git")
            .args(["-c", "user.name=T", "-c", "user.email=t@example.invalid"])
            .args(arguments)
            .current_dir(self.root().join(directory))
            .status()
            .unwrap();
        assert!(status.success(), "{arguments:?}");
    }

    async fn keeper(&self, max_bytes: u64) -> Keeper {
        let state = self.folder.path().join("state");
        let settings = Settings::new(self.root(), state, Vec::new(), &unconfined());
        Keeper::open(&settings, max_bytes).await.unwrap()
    }

    /// The unpacked archive, and what is left out.
    async fn archive(&self, max_bytes: u64, part: &Part) -> (PathBuf, Vec<LeftOut>) {
        let keeper = self.keeper(max_bytes).await;
        let content = keeper.content(part).await.unwrap();
        let file = keeper.archive(&content).await.unwrap();
        let packed = files::read(&file.path).unwrap();
        assert_eq!(file.size_bytes, packed.len() as u64);
        assert_eq!(KeptFile::of(file.path.clone(), Format::Archive).await.unwrap(), file);
        let tar = self.folder.path().join("archive.tar");
        files::write(&tar, zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
        let unpacked = self.folder.path().join("unpacked");
        let status = Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(&unpacked).status().unwrap();
        assert!(status.success());
        (unpacked.join("workspace"), content.left_out)
    }
}

/// Paths of all files and links below a directory, sorted.
fn list(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in files::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => waiting.push(entry.path()),
                false => found.push(entry.path().strip_prefix(directory).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    found
}

fn paths(left_out: &[LeftOut]) -> Vec<&str> {
    left_out.iter().map(|part| part.path.as_str()).collect()
}

#[tokio::test]
async fn archive_has_the_files_of_the_workspace_without_what_is_ignored_or_generated() {
    let fixture = Fixture::new();
    fixture.write("src/main.rs", "fn main() {}\n");
    fixture.write("run.sh", "#!/bin/sh\n");
    files::set_permissions(fixture.root().join("run.sh"), files::Permissions::from_mode(0o4755)).unwrap();
    fixture.write("new\nline", "x");
    fixture.write(".gitignore", "*.log\nbuild/\n");
    fixture.write("debug.log", "x");
    fixture.write("build/out", "x");
    fixture.write("node_modules/left/index.js", "x");
    fixture.write("target/CACHEDIR.TAG", "x");
    fixture.write("target/debug/program", "x");
    // What the repository says about exports and filters does not count.
    fixture.write(".gitattributes", "src/main.rs export-ignore\nrun.sh text eol=crlf filter=none\n");
    symlink("src/main.rs", fixture.root().join("link")).unwrap();
    let (unpacked, left_out) = fixture.archive(1_000_000, &Part::All).await;
    let expected = [".gitattributes", ".gitignore", "link", "new\nline", "run.sh", "src/main.rs"];
    assert_eq!(list(&unpacked), expected);
    assert_eq!(files::read_to_string(unpacked.join("run.sh")).unwrap(), "#!/bin/sh\n");
    let mode = unpacked.join("run.sh").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755, "no file gets the permissions of its owner");
    assert_eq!(left_out, []);
}

#[tokio::test]
async fn nothing_outside_the_workspace_gets_into_the_archive() {
    let fixture = Fixture::new();
    files::write(fixture.folder.path().join("secret"), "secret").unwrap();
    fixture.write("a/file", "x");
    symlink("../secret", fixture.root().join("relative")).unwrap();
    symlink(fixture.folder.path().join("secret"), fixture.root().join("absolute")).unwrap();
    symlink(fixture.folder.path(), fixture.root().join("directory")).unwrap();
    symlink("a/../../secret", fixture.root().join("through")).unwrap();
    let pipe = Command::new("mkfifo").arg(fixture.root().join("pipe")).status().unwrap();
    assert!(pipe.success());
    let (unpacked, left_out) = fixture.archive(1_000_000, &Part::All).await;
    assert_eq!(list(&unpacked), ["a/file"]);
    let mut names = paths(&left_out);
    names.sort_unstable();
    assert_eq!(names, ["absolute", "directory", "relative", "through"]);
}

#[tokio::test]
async fn large_and_sparse_files_are_left_out_and_named() {
    let fixture = Fixture::new();
    fixture.write("small", "x");
    fixture.write("large", &"x".repeat(2_000));
    files::File::create(fixture.root().join("sparse")).unwrap().set_len(1 << 42).unwrap();
    let (unpacked, left_out) = fixture.archive(1_000, &Part::All).await;
    assert_eq!(list(&unpacked), ["small"]);
    assert_eq!(paths(&left_out), ["large", "sparse"]);
    assert!(left_out[1].reason.starts_with("too large: it has 4398047 MB"), "{:?}", left_out[1]);
}

#[tokio::test]
async fn repositories_in_the_workspace_are_kept_as_files() {
    let fixture = Fixture::new();
    fixture.git("", &["init", "-q"]);
    fixture.write("file", "x");
    fixture.write("inner/committed", "x");
    fixture.git("inner", &["init", "-q"]);
    fixture.git("inner", &["add", "-A"]);
    fixture.git("inner", &["commit", "-qm", "begin"]);
    fixture.write("inner/.gitignore", "ignored\n");
    fixture.write("inner/ignored", "x");
    fixture.write("inner/new", "x");
    fixture.write("inner/deep/file", "x");
    fixture.git("inner/deep", &["init", "-q"]);
    let (unpacked, left_out) = fixture.archive(1_000_000, &Part::All).await;
    let expected = ["file", "inner/.gitignore", "inner/committed", "inner/deep/file", "inner/new"];
    assert_eq!(list(&unpacked), expected);
    assert_eq!(paths(&left_out), ["inner/.git", "inner/deep/.git"], "their history is not kept");
    files::remove_dir_all(unpacked).unwrap();
    let (unpacked, _) = fixture.archive(1_000_000, &Part::Directories(vec![b"inner/deep".to_vec()])).await;
    assert_eq!(list(&unpacked), ["inner/deep/file"]);
}

#[tokio::test]
async fn patch_creates_the_files_in_an_empty_directory() {
    let fixture = Fixture::new();
    fixture.write("src/a.txt", "one\ntwo\n");
    files::write(fixture.root().join("binary"), [0, 159, 146, 150]).unwrap();
    let keeper = fixture.keeper(1_000_000).await;
    let content = keeper.content(&Part::All).await.unwrap();
    assert!(!keeper.is_empty(&content).await.unwrap());
    let patch = keeper.patch(&content).await.unwrap().unwrap();
    let unpacked = fixture.folder.path().join("unpacked");
    let status = Command::new("git").arg("apply").arg(&patch.path).current_dir(&unpacked).status().unwrap();
    assert!(status.success());
    assert_eq!(list(&unpacked), ["binary", "src/a.txt"]);
    assert_eq!(files::read(unpacked.join("binary")).unwrap(), [0, 159, 146, 150]);
    assert_eq!(keeper.content(&Part::All).await.unwrap(), content, "equal files have equal content");
    fixture.write("more", &"noise 0123456789\n".repeat(1_000_000));
    let content = fixture.keeper(u64::MAX).await.content(&Part::All).await.unwrap();
    assert_eq!(keeper.patch(&content).await.unwrap(), None, "it is too large");
}

#[tokio::test]
async fn workspace_without_files_has_nothing_to_keep() {
    let fixture = Fixture::new();
    fixture.git("", &["init", "-q"]);
    let keeper = fixture.keeper(1_000).await;
    let content = keeper.content(&Part::All).await.unwrap();
    assert!(keeper.is_empty(&content).await.unwrap());
}
