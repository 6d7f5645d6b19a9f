//! Looking at a sandbox.

use crate::call::{Caller, Refused};
use contract::sandboxes::SandboxOut;
use domain::SandboxId;
use std::time::Duration;

/// One sandbox at a plane: what a worker looks at before it begins, for its epoch and for whether it should begin at all.
#[derive(Debug, Clone)]
pub struct Sandbox {
    caller: Caller,
    deadline: Duration,
    url: String,
}

impl Sandbox {
    /// A sandbox at a plane. A request without an answer after `deadline` is repeated.
    pub fn new(plane: &str, sandbox: &SandboxId, token: Option<String>, deadline: Duration) -> Self {
        let url = format!("{plane}/api/v1/sandboxes/{sandbox}");
        Self { caller: Caller::new(token), deadline, url }
    }

    /// How it stands now. A new run of its worker takes `epoch + 1`.
    pub async fn show(&self) -> Result<SandboxOut, Refused> {
        self.caller.ask(self.deadline, |http| http.get(&self.url)).await
    }
}
