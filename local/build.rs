//! Recompiles this crate, which embeds the console, when `web/dist` has changed.
//!
//! It does not build the console, so that this build does not need Node.js. Without a console, the plane serves a page that
//! says how to build it.

use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/dist");
    // Cargo treats a missing path as changed every time, but it can watch an empty directory.
    fs::create_dir_all(&dist)?;
    println!("cargo::rerun-if-changed={}", dist.display());
    Ok(())
}
