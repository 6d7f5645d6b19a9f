//! What a worker cannot do on systems other than Linux.

/// For the log and for `check`; `None` where nothing is missing.
pub fn limitations() -> Option<String> {
    if cfg!(target_os = "linux") {
        return None;
    }
    Some(format!(
        "On {} the worker does not isolate its agent (ISOLATION is refused), report how much memory the agent uses, \
         detect its dev servers for previews, notice that the system killed it for lack of memory, or stop an agent \
         that was left running by a worker that was killed.",
        std::env::consts::OS
    ))
}
