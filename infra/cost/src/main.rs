//! `cargo run -p cost` prints the tables of `docs/cost.md` and `docs/scale.md`; with `--write` it updates both files.

use cost::{Counts, report};
use std::error::Error;
use std::fs;
use std::path::Path;
use terminal::print_line;

fn main() -> Result<(), Box<dyn Error>> {
    let write = std::env::args().any(|argument| argument == "--write");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, sections) in report::documents(&Counts::committed()) {
        if write {
            let path = root.join(file);
            let text = fs::read_to_string(&path)?;
            fs::write(&path, report::replace(&text, &sections)?)?;
            print_line(&format!("{file} is up to date"));
        } else {
            for (name, table) in sections {
                print_line(&format!("{file}: {name}\n\n{table}"));
            }
        }
    }
    Ok(())
}
