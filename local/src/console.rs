//! The console's files: inside of this program, or in a folder.

use bytes::Bytes;
use std::path::{Path, PathBuf};

/// Every file that was in `web/dist` when this program was built: its name in a URL, and itself after gzip.
static EMBEDDED: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// Where the files are.
#[derive(Debug)]
pub struct Console {
    folder: Option<PathBuf>,
}

/// One file.
#[derive(Debug, PartialEq, Eq)]
pub struct File {
    /// What is in it.
    pub bytes: Bytes,
    /// Whether that is after gzip.
    pub is_gzip: bool,
}

impl Console {
    /// From a folder, or else from this program. A folder is read anew for every request: what is built while the plane
    /// runs is shown.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// The file of this name in a URL (`/assets/index-B2xZ.js`), if there is one.
    pub fn file(&self, name: &str) -> Option<File> {
        match &self.folder {
            Some(folder) => read(folder, name).map(|bytes| File { bytes, is_gzip: false }),
            None => {
                let (_, packed) = EMBEDDED.iter().find(|(known, _)| *known == name)?;
                Some(File { bytes: Bytes::from_static(packed), is_gzip: true })
            }
        }
    }
}

/// A file inside of a folder, wherever its name or a link points.
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
    fn only_what_is_inside_of_the_folder_is_read() {
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
