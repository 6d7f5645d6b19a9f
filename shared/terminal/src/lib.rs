//! Standard output and standard error of every command of this project.
//!
//! `println!` panics when the reader of a pipe has exited (`sunaba tasks | head -1`), because Rust ignores SIGPIPE.
//! These functions end the process instead, silently and with the status that a shell reports for SIGPIPE.
//!
//! Only the standard library: `xtask` uses this too.

use std::io::{ErrorKind, Write};

/// 128 + SIGPIPE, as shells report it.
pub const CLOSED_PIPE: i32 = 141;

/// Prints text to standard output.
pub fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(CLOSED_PIPE),
        Err(error) => {
            print_error(&format!("cannot write to standard output: {error}"));
            std::process::exit(1)
        }
    }
}

/// Prints a line to standard output.
pub fn print_line(line: &str) {
    print(&format!("{line}\n"));
}

/// Prints a line to standard error. A closed standard error is not a failure: the exit status still says what happened.
pub fn print_error(line: &str) {
    let _closed = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
