//! Puts the console into the program, as browsers take it: each file of `web/dist`, compressed.
//!
//! Nothing here builds it, so that no build of ours needs Node.js. Where it is not built, the program says so.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/dist");
    // Cargo takes a path that is not there for changed, each time; an empty folder it can watch.
    fs::create_dir_all(&dist)?;
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    // A folder without it is one that is being built.
    if dist.join("index.html").is_file() {
        collect(&dist, "", &mut files)?;
    }
    files.sort();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?);
    let mut table = String::from("[\n");
    for (index, (name, path)) in files.iter().enumerate() {
        let packed = out.join(format!("{index}.gz"));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&fs::read(path)?)?;
        fs::write(&packed, encoder.finish()?)?;
        writeln!(table, "    ({name:?}, include_bytes!({packed:?}).as_slice()),")?;
    }
    table.push_str("]\n");
    fs::write(out.join("console.rs"), table)?;
    Ok(())
}

/// The name in a URL and the path of every file. What starts with a dot is the build's own.
fn collect(folder: &Path, before: &str, files: &mut Vec<(String, PathBuf)>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("a file's name is not text")?;
        let place = format!("{before}/{name}");
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(&path, &place, files)?;
        } else {
            files.push((place, path));
        }
    }
    Ok(())
}
