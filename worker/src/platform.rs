//! Limitations of the worker on systems other than Linux.

/// Shown in the log and by `check`. `None` on Linux.
pub fn limitations() -> Option<String> {
    if cfg!(target_os = "linux") {
        return None;
    }
    Some(format!(
        "On {} the worker isolates the agent with sandbox-exec, which was never tested; it cannot report the agent's memory usage, detect \
         its dev servers for previews, detect that it was killed by the out-of-memory killer, or stop an agent left \
         running by a worker that was killed.",
        std::env::consts::OS
    ))
}
