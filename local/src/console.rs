//! The console's files: embedded in this executable, or in a directory.

use rust_embed::Embed;
use std::borrow::Cow;
use std::future::{Ready, ready};
use std::io::{self, Cursor, ErrorKind, SeekFrom};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncSeek, ReadBuf};
use tower_http::services::fs;

/// `web/dist` at build time.
#[derive(Embed)]
#[folder = "../web/dist"]
struct Embedded;

/// What `ServeDir` serves.
#[derive(Debug, Clone)]
pub struct Console {
    folder: Option<PathBuf>,
}

/// An open file. The console's files are small, so they are read at once.
#[derive(Debug)]
pub struct File {
    content: Cursor<Cow<'static, [u8]>>,
    modified: SystemTime,
}

#[derive(Debug)]
pub struct Properties {
    size_bytes: u64,
    modified: SystemTime,
}

impl Console {
    /// From a directory, or else from this executable. A directory is read for every request, so that a rebuild takes effect
    /// immediately.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    fn file(&self, path: &Path) -> io::Result<File> {
        // The root of `ServeDir`.
        let name = path.strip_prefix(".").unwrap_or(path);
        let found = match &self.folder {
            Some(folder) => read(folder, name),
            None => embedded(name),
        };
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }
}

fn embedded(name: &Path) -> Option<File> {
    let file = Embedded::get(name.to_str()?)?;
    let modified = modified(file.metadata.last_modified().unwrap_or_default(), file.metadata.sha256_hash());
    Some(File { content: Cursor::new(file.data), modified })
}

/// The time of an embedded file. Its nanoseconds are a digest of the contents, because `ServeDir` makes ETags from the
/// size and the time only: each build of `index.html` has the same size, and with `SOURCE_DATE_EPOCH` the same time.
fn modified(secs: u64, sha256: [u8; 32]) -> SystemTime {
    let [a, b, c, d, ..] = sha256;
    let nanos = u32::from_be_bytes([a, b, c, d]) % 1_000_000_000;
    SystemTime::UNIX_EPOCH + Duration::new(secs, nanos)
}

/// Reads a file only if it is inside the directory after resolving links.
fn read(folder: &Path, name: &Path) -> Option<File> {
    let folder = folder.canonicalize().ok()?;
    let path = folder.join(name).canonicalize().ok()?;
    let modified = path.metadata().and_then(|metadata| metadata.modified()).ok()?;
    if !path.starts_with(&folder) || !path.is_file() {
        return None;
    }
    Some(File { content: Cursor::new(std::fs::read(path).ok()?.into()), modified })
}

impl fs::Backend for Console {
    type File = File;
    type Metadata = Properties;
    type OpenFuture = Ready<io::Result<File>>;
    type MetadataFuture = Ready<io::Result<Properties>>;

    fn open(&self, path: PathBuf) -> Self::OpenFuture {
        ready(self.file(&path))
    }

    fn metadata(&self, path: PathBuf) -> Self::MetadataFuture {
        ready(self.file(&path).map(|file| file.properties()))
    }
}

impl File {
    fn properties(&self) -> Properties {
        Properties { size_bytes: self.content.get_ref().len() as u64, modified: self.modified }
    }
}

impl fs::File for File {
    type Metadata = Properties;
    type MetadataFuture<'a> = Ready<io::Result<Properties>>;

    fn metadata(&self) -> Self::MetadataFuture<'_> {
        ready(Ok(self.properties()))
    }
}

impl AsyncRead for File {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.content).poll_read(context, buffer)
    }
}

impl AsyncSeek for File {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        Pin::new(&mut self.content).start_seek(position)
    }

    fn poll_complete(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Pin::new(&mut self.content).poll_complete(context)
    }
}

impl fs::Metadata for Properties {
    fn is_dir(&self) -> bool {
        false
    }

    fn modified(&self) -> io::Result<SystemTime> {
        Ok(self.modified)
    }

    fn len(&self) -> u64 {
        self.size_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_an_embedded_file_change_its_time_by_less_than_a_second() {
        let (one, other) = (modified(7, [1; 32]), modified(7, [255; 32]));
        assert_ne!(one, other);
        for time in [one, other] {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
            assert_eq!(since.as_secs(), 7);
        }
        assert_eq!(one, modified(7, [1; 32]));
    }

    #[test]
    fn only_files_inside_the_directory_are_read() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("dist");
        std::fs::create_dir_all(folder.join("assets")).unwrap();
        std::fs::write(folder.join("assets/a.js"), "1").unwrap();
        std::fs::write(around.path().join("secret"), "2").unwrap();
        std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
        let console = Console::new(Some(folder));
        let text = |path: &str| console.file(Path::new(path)).ok().map(|file| file.content.into_inner());
        assert_eq!(text("./assets/a.js").as_deref(), Some(&b"1"[..]));
        for path in
            ["./assets", ".", "./nothing", "./../secret", "./assets/../../secret", "./link", "/etc/passwd"]
        {
            assert_eq!(text(path), None, "{path}");
        }
    }
}
