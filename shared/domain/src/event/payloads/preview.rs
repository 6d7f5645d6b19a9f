//! Events about servers that listen in a sandbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process listens on a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PreviewStarting {
    pub port: u16,
    /// The command of the process.
    pub process: String,
}

/// The server responds to requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PreviewReady {
    /// The port on which the server listens.
    pub port: u16,
    /// The port of the sandbox's machine that is forwarded to it, if the server listens in a network of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded_port: Option<u16>,
    #[serde(alias = "preview_url")]
    pub url: String,
    pub framework: Option<String>,
    /// The title of its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// The server does not respond to requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PreviewFailed {
    pub port: u16,
    pub error: String,
}

/// The port is closed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PreviewStopped {
    pub port: u16,
}
