//! Output lines of the CLI: one JSON object per line. Key order is not stable, frame types change between versions, and
//! a line may be megabytes long. So only known fields are parsed, and an unknown line is kept unchanged.

use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// One block of an assistant message: text, thinking or a tool call.
    Assistant(Box<Message>),
    /// Input to the model: a tool result, the echo of our message, or a note of the CLI.
    User(Box<Message>),
    Stream(Box<Stream>),
    System(Fields),
    Result(Box<TurnResult>),
    /// Delivery progress of one of our messages.
    Lifecycle(Lifecycle),
    /// A control request of the CLI, which waits for our response.
    Request(Request),
    /// The response to one of our control requests.
    Response(Response),
    /// The CLI appended to its transcript.
    TranscriptMirror,
    /// A long-running tool is still working. Not an event, but it may be the only sign of progress for minutes.
    Progress,
    /// Keep-alives and other frames without content.
    Ignored,
    /// Another known frame about the session, such as a rate limit.
    Notice(Fields),
    /// An unknown line, unchanged.
    Unparsed(String),
}

/// The fields of a frame that is passed on unchanged.
pub type Fields = Map<String, Value>;

/// A message, or one block of it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Message {
    pub message: Body,
    /// The id of this block. The CLI's transcript uses the same id.
    pub uuid: String,
    /// The tool call that started the sub-agent; `None` for the agent itself.
    #[serde(default)]
    pub parent_tool_use_id: Option<String>,
    /// Whether this is the echo of our message.
    #[serde(default, rename = "isReplay")]
    pub is_replay: bool,
    /// Whether it was interrupted while streaming.
    #[serde(default)]
    pub aborted: bool,
    /// The tool's structured result.
    #[serde(default)]
    pub tool_use_result: Option<Value>,
    #[serde(default)]
    pub timestamp: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Body {
    /// The id of the message; all of its blocks share it.
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub content: Content,
    #[serde(default)]
    pub stop_reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Content {
    Text(String),
    /// Unparsed content blocks.
    Blocks(Vec<Value>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

/// Part of a message that is being streamed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Stream {
    /// A streaming event of the Messages API.
    pub event: Value,
    #[serde(default)]
    pub parent_tool_use_id: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TurnResult {
    pub uuid: String,
    /// `success`, `error_during_execution`, `error_max_turns`, `error_max_budget_usd`, …
    pub subtype: String,
    /// API failures have `subtype` `success` and this flag set.
    pub is_error: bool,
    pub api_error_status: Option<Value>,
    pub result: Option<String>,
    /// Error messages.
    pub errors: Vec<Value>,
    pub stop_reason: Option<String>,
    pub terminal_reason: Option<String>,
    /// Cost of the session so far, including before a resume.
    pub total_cost_usd: f64,
    pub usage: Usage,
    /// Number of model responses in this turn.
    pub num_turns: u64,
    pub duration_ms: u64,
    pub duration_api_ms: u64,
    pub session_id: String,
    /// Our messages that were handled in this turn.
    pub user_message_uuids: Vec<Uuid>,
    pub permission_denials: Vec<Value>,
}

/// Tokens of one turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_input_tokens: u64,
    pub cache_creation_input_tokens: u64,
}

/// Delivery progress of one of our messages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Lifecycle {
    pub command_uuid: Uuid,
    /// `queued`, `started`, `completed`, `cancelled`, `discarded` or `refused`.
    pub state: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Request {
    /// Must be repeated in the response.
    pub request_id: String,
    /// Its `subtype` is the kind of request.
    pub request: Fields,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Response {
    pub response: ResponseBody,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ResponseBody {
    /// `success` or `error`.
    pub subtype: String,
    pub request_id: String,
    #[serde(default)]
    pub response: Value,
    #[serde(default)]
    pub error: Option<String>,
}

impl Frame {
    pub fn parse(line: &str) -> Self {
        Self::read(line).unwrap_or_else(|| Self::Unparsed(line.to_owned()))
    }

    fn read(line: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Kind {
            #[serde(rename = "type")]
            kind: String,
        }
        fn parse_as<T: for<'a> Deserialize<'a>>(line: &str) -> Option<T> {
            serde_json::from_str(line).ok()
        }
        let Kind { kind } = parse_as(line)?;
        Some(match kind.as_str() {
            "assistant" => Self::Assistant(parse_as(line)?),
            "user" => Self::User(parse_as(line)?),
            "stream_event" => Self::Stream(parse_as(line)?),
            "system" => Self::System(parse_as(line)?),
            "result" => Self::Result(parse_as(line)?),
            "command_lifecycle" => Self::Lifecycle(parse_as(line)?),
            "control_request" => Self::Request(parse_as(line)?),
            "control_response" => Self::Response(parse_as(line)?),
            "transcript_mirror" => Self::TranscriptMirror,
            "tool_progress" => Self::Progress,
            "keep_alive" | "control_cancel_request" => Self::Ignored,
            "rate_limit_event" | "auth_status" | "prompt_suggestion" | "conversation_reset"
            | "tool_use_summary" => Self::Notice(parse_as(line)?),
            _ => return None,
        })
    }
}
