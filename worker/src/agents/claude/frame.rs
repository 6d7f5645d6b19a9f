//! What the CLI prints: one JSON object a line. Key order is not stable, kinds come and go between versions, and a
//! line may be megabytes. So a line is taken apart only as far as it is understood, and kept whole where it is not.

use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

/// One line of the CLI.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// The agent says, thinks or uses something: one block of a message.
    Assistant(Box<Message>),
    /// What the agent is told: a result of a tool, an echo of what we said, a remark of the CLI.
    User(Box<Message>),
    /// A message is being written.
    Stream(Box<Stream>),
    /// Something about the session.
    System(Fields),
    /// A turn is over.
    Result(Box<TurnResult>),
    /// How far something has come that we said.
    Lifecycle(Lifecycle),
    /// The CLI asks us something, and waits.
    Request(Request),
    /// The CLI answers what we asked.
    Response(Response),
    /// It has written into its own record.
    Mirror,
    /// A tool that takes long goes on. It says nothing a reader would miss, but whoever waits for a sign of work may have
    /// no other.
    Progress,
    /// Signs of life that say nothing a reader would miss.
    Idle,
    /// Another kind that is known to be a remark about the session, such as a rate limit.
    Remark(Fields),
    /// A line that we cannot read. It is kept as it is.
    Unparsed(String),
}

/// The fields of a frame that is passed on as it is.
pub type Fields = Map<String, Value>;

/// A message, or one block of it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Message {
    /// What it says.
    pub message: Body,
    /// The name of this block: the CLI's own record has the same.
    pub uuid: String,
    /// The tool call of the sub-agent that speaks; none for the agent itself.
    #[serde(default)]
    pub parent_tool_use_id: Option<String>,
    /// An echo of what we said.
    #[serde(default, rename = "isReplay")]
    pub is_replay: bool,
    /// Somebody stopped it in the middle.
    #[serde(default)]
    pub aborted: bool,
    /// What a tool gave back, in its own form.
    #[serde(default)]
    pub tool_use_result: Option<Value>,
    /// When it was made.
    #[serde(default)]
    pub timestamp: Option<String>,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Body {
    /// The name of the whole message; blocks of one message share it.
    #[serde(default)]
    pub id: Option<String>,
    /// Which model wrote it.
    #[serde(default)]
    pub model: Option<String>,
    /// A text, or blocks.
    #[serde(default)]
    pub content: Content,
    /// Why it ended, if it has.
    #[serde(default)]
    pub stop_reason: Option<String>,
}

/// What a message holds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// One text.
    Text(String),
    /// Blocks, each as it came.
    Blocks(Vec<Value>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

/// Part of a message that is being written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Stream {
    /// As the Messages API says it.
    pub event: Value,
    /// As in [`Message`].
    #[serde(default)]
    pub parent_tool_use_id: Option<String>,
}

/// The end of a turn.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TurnResult {
    /// The name of this frame.
    pub uuid: String,
    /// `success`, `error_during_execution`, `error_max_turns`, `error_max_budget_usd`, …
    pub subtype: String,
    /// Whether it went wrong. API failures are `success` with this set.
    pub is_error: bool,
    /// The status of the API, if that is what went wrong.
    pub api_error_status: Option<Value>,
    /// The last text.
    pub result: Option<String>,
    /// What went wrong, in words.
    pub errors: Vec<Value>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// Why the turn stopped.
    pub terminal_reason: Option<String>,
    /// What the session has cost so far, also before a resume.
    pub total_cost_usd: f64,
    /// Tokens of this turn.
    pub usage: Usage,
    /// How often the model was asked in this turn.
    pub num_turns: u64,
    /// How long it took.
    pub duration_ms: u64,
    /// How long the model took.
    pub duration_api_ms: u64,
    /// Which session.
    pub session_id: String,
    /// What we said that was worked on in this turn.
    pub user_message_uuids: Vec<Uuid>,
    /// Tools that were not allowed.
    pub permission_denials: Vec<Value>,
}

/// Tokens, as the API counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Read.
    pub input_tokens: u64,
    /// Written.
    pub output_tokens: u64,
    /// Read from the cache.
    pub cache_read_input_tokens: u64,
    /// Written to the cache.
    pub cache_creation_input_tokens: u64,
}

/// How far something has come that we said.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Lifecycle {
    /// Which.
    pub command_uuid: Uuid,
    /// `queued`, `started`, `completed`, `cancelled`, `discarded` or `refused`.
    pub state: String,
}

/// Something the CLI asks us.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Request {
    /// To name in the answer.
    pub request_id: String,
    /// What it asks; `subtype` says what kind.
    pub request: Fields,
}

/// An answer to something that we asked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Response {
    /// The answer.
    pub response: Answer,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Answer {
    /// `success` or `error`.
    pub subtype: String,
    /// What we called it.
    pub request_id: String,
    /// What it says.
    #[serde(default)]
    pub response: Value,
    /// What went wrong.
    #[serde(default)]
    pub error: Option<String>,
}

impl Frame {
    /// Reads a line.
    pub fn parse(line: &str) -> Self {
        Self::read(line).unwrap_or_else(|| Self::Unparsed(line.to_owned()))
    }

    fn read(line: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Kind {
            #[serde(rename = "type")]
            kind: String,
        }
        fn whole<T: for<'a> Deserialize<'a>>(line: &str) -> Option<T> {
            serde_json::from_str(line).ok()
        }
        let Kind { kind } = whole(line)?;
        Some(match kind.as_str() {
            "assistant" => Self::Assistant(whole(line)?),
            "user" => Self::User(whole(line)?),
            "stream_event" => Self::Stream(whole(line)?),
            "system" => Self::System(whole(line)?),
            "result" => Self::Result(whole(line)?),
            "command_lifecycle" => Self::Lifecycle(whole(line)?),
            "control_request" => Self::Request(whole(line)?),
            "control_response" => Self::Response(whole(line)?),
            "transcript_mirror" => Self::Mirror,
            "tool_progress" => Self::Progress,
            "keep_alive" | "control_cancel_request" => Self::Idle,
            "rate_limit_event" | "auth_status" | "prompt_suggestion" | "conversation_reset"
            | "tool_use_summary" => Self::Remark(whole(line)?),
            _ => return None,
        })
    }
}
