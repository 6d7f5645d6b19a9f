//! What an agent may have done by the worker: files and terminals of its workspace.

use super::files::Workspace;
use super::terminals::Terminals;
use agent_client_protocol_schema::v1::{
    CreateTerminalRequest, Error, ErrorCode, ReadTextFileRequest, WriteTextFileRequest,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

/// Does things for an agent. Cloning gives the same one.
#[derive(Debug, Clone)]
pub struct Host {
    /// Whose files.
    pub workspace: Workspace,
    /// Whose terminals.
    pub terminals: Terminals,
}

impl Host {
    /// Whether a method is one of these.
    pub fn knows(method: &str) -> bool {
        method.starts_with("fs/") || method.starts_with("terminal/")
    }

    /// Does what the agent asks for.
    ///
    /// # Errors
    /// When it is unknown, not allowed, or fails; the agent is told why.
    pub async fn serve(self, method: &str, params: Value) -> Result<Value, Error> {
        match method {
            "fs/read_text_file" => {
                let request: ReadTextFileRequest = read(params)?;
                let text = self.on_files(move |files| files.read(&request.path, request.line, request.limit));
                Ok(json!({ "content": text.await? }))
            }
            "fs/write_text_file" => {
                let request: WriteTextFileRequest = read(params)?;
                self.on_files(move |files| files.write(&request.path, &request.content)).await?;
                Ok(json!({}))
            }
            "terminal/create" => {
                let id = self.terminals.create(&read::<CreateTerminalRequest>(params)?)?;
                Ok(json!({ "terminalId": id }))
            }
            "terminal/output" => self.terminals.output(terminal(&params)?),
            "terminal/wait_for_exit" => self.terminals.wait_for_exit(terminal(&params)?).await,
            "terminal/kill" => self.terminals.kill(terminal(&params)?).map(|()| json!({})),
            "terminal/release" => self.terminals.release(terminal(&params)?).map(|()| json!({})),
            _ => Err(unknown(method)),
        }
    }

    async fn on_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Workspace) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let workspace = self.workspace.clone();
        let done = spawn_blocking(move || work(&workspace)).await;
        done.unwrap_or_else(|error| Err(Error::new(ErrorCode::InternalError.into(), error.to_string())))
    }
}

/// There is no such method.
pub fn unknown(method: &str) -> Error {
    Error::new(ErrorCode::MethodNotFound.into(), format!("There is no method {method}."))
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Error> {
    serde_json::from_value(params)
        .map_err(|error| Error::new(ErrorCode::InvalidParams.into(), error.to_string()))
}

fn terminal(params: &Value) -> Result<&str, Error> {
    let missing = || Error::new(ErrorCode::InvalidParams.into(), "terminalId is missing.");
    params["terminalId"].as_str().ok_or_else(missing)
}
