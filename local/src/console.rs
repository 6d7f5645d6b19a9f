//! The console's files: embedded in this executable, or in a directory.

use bytes::Bytes;
use std::path::{Path, PathBuf};

/// Every file of `web/dist` at build time: its URL path and its gzipped contents.
static EMBEDDED: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/console.rs"));

#[derive(Debug)]
pub struct Console {
    folder: Option<PathBuf>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct File {
    pub bytes: Bytes,
    pub is_gzip: bool,
}

impl Console {
    /// From a directory, or else from this executable. A directory is read for every request, so that a rebuild takes effect
    /// immediately.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// The file with this URL path (`/assets/index-B2xZ.js`).
    pub fn file(&self, name: &str) -> Option<File> {
        match &self.folder {
            Some(folder) => read(folder, name).map(|bytes| File { bytes, is_gzip: false }),
            None => {
                let (_, compressed) = EMBEDDED.iter().find(|(known, _)| *known == name)?;
                Some(File { bytes: Bytes::from_static(compressed), is_gzip: true })
            }
        }
    }
}

/// Reads a file only if it is inside the directory after resolving `..` and links.
fn read(folder: &Path, name: &str) -> Option<Bytes> {
    let folder = folder.canonicalize().ok()?;
    let path = folder.join(name.trim_start_matches('/')).canonicalize().ok()?;
    if !path.starts_with(&folder) || !path.is_file() {
        return None;
    }
    std::fs::read(path).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_files_inside_the_directory_are_read() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("dist");
        fs::create_dir_all(folder.join("assets")).unwrap();
        fs::write(folder.join("assets/a.js"), "1").unwrap();
        fs::write(around.path().join("secret"), "2").unwrap();
        std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
        let console = Console::new(Some(folder));
        let text = |name: &str| console.file(name).map(|file| file.bytes);
        assert_eq!(text("/assets/a.js").as_deref(), Some(&b"1"[..]));
        for name in
            ["/assets", "/", "/nothing", "/../secret", "/assets/../../secret", "/link", "//etc/passwd"]
        {
            assert_eq!(text(name), None, "{name}");
        }
    }
}
