//! The `sunaba-worker` binary.

fn main() {}
