//! Embeds the console into the executable: every file of `web/dist`, gzipped.
//!
//! It does not build the console, so that this build does not need Node.js. Without a console, the plane serves a page that
//! says how to build it.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/dist");
    // Cargo treats a missing path as changed every time, but it can watch an empty directory.
    fs::create_dir_all(&dist)?;
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    // Without it, the console is still being built.
    if dist.join("index.html").is_file() {
        collect(&dist, "", &mut files)?;
    }
    files.sort();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
    let mut table = String::from("[\n");
    for (index, (name, path)) in files.iter().enumerate() {
        let compressed = out.join(format!("{index}.gz"));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&fs::read(path)?)?;
        fs::write(&compressed, encoder.finish()?)?;
        writeln!(table, "    ({name:?}, include_bytes!({compressed:?}).as_slice()),")?;
    }
    table.push_str("]\n");
    fs::write(out.join("console.rs"), table)?;
    Ok(())
}

/// The URL path and the file path of every file. Skips dot files of the build.
fn collect(directory: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) -> Result<(), Failure> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("a file name is not UTF-8")?;
        let url_path = format!("{prefix}/{name}");
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(&path, &url_path, files)?;
        } else {
            files.push((url_path, path));
        }
    }
    Ok(())
}
