//! Client methods of the protocol that the worker serves: files and terminals in the workspace.

use super::files::Workspace;
use super::terminals::Terminals;
use agent_client_protocol_schema::v1::{
    CreateTerminalRequest, Error, ErrorCode, ReadTextFileRequest, WriteTextFileRequest,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

/// Serves an agent's requests. Clones share their state.
#[derive(Debug, Clone)]
pub struct Host {
    pub workspace: Workspace,
    pub terminals: Terminals,
}

impl Host {
    pub fn handles(method: &str) -> bool {
        method.starts_with("fs/") || method.starts_with("terminal/")
    }

    /// # Errors
    /// When the method is unknown, not allowed, or fails. The error is sent to the agent.
    pub async fn serve(self, method: &str, params: Value) -> Result<Value, Error> {
        match method {
            "fs/read_text_file" => {
                let request: ReadTextFileRequest = decode(params)?;
                let text = self.with_workspace(move |workspace| {
                    workspace.read(&request.path, request.line, request.limit)
                });
                Ok(json!({ "content": text.await? }))
            }
            "fs/write_text_file" => {
                let request: WriteTextFileRequest = decode(params)?;
                self.with_workspace(move |workspace| workspace.write(&request.path, &request.content))
                    .await?;
                Ok(json!({}))
            }
            "terminal/create" => {
                let id = self.terminals.create(&decode::<CreateTerminalRequest>(params)?)?;
                Ok(json!({ "terminalId": id }))
            }
            "terminal/output" => self.terminals.output(terminal_id(&params)?),
            "terminal/wait_for_exit" => self.terminals.wait_for_exit(terminal_id(&params)?).await,
            "terminal/kill" => self.terminals.kill(terminal_id(&params)?).map(|()| json!({})),
            "terminal/release" => self.terminals.release(terminal_id(&params)?).map(|()| json!({})),
            _ => Err(method_not_found(method)),
        }
    }

    async fn with_workspace<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Workspace) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let workspace = self.workspace.clone();
        let result = spawn_blocking(move || work(&workspace)).await;
        result.unwrap_or_else(|error| Err(Error::new(ErrorCode::InternalError.into(), error.to_string())))
    }
}

pub fn method_not_found(method: &str) -> Error {
    Error::new(ErrorCode::MethodNotFound.into(), format!("Method {method} does not exist."))
}

fn decode<T: DeserializeOwned>(params: Value) -> Result<T, Error> {
    serde_json::from_value(params)
        .map_err(|error| Error::new(ErrorCode::InvalidParams.into(), error.to_string()))
}

fn terminal_id(params: &Value) -> Result<&str, Error> {
    let missing = || Error::new(ErrorCode::InvalidParams.into(), "terminalId is missing.");
    params["terminalId"].as_str().ok_or_else(missing)
}
