//! Error codes that only sockets send. `docs/errors.md` is generated from this table.

/// The code of an error frame that has no counterpart in the HTTP API. Other error frames have a
/// [`ProblemCode`](crate::ProblemCode).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketCode {
    InvalidJson,
    InvalidFrame,
    UnknownFrame,
    TokenExpired,
}

impl SocketCode {
    pub const ALL: [Self; 4] =
        [Self::InvalidJson, Self::InvalidFrame, Self::UnknownFrame, Self::TokenExpired];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidJson => "invalid_json",
            Self::InvalidFrame => "invalid_frame",
            Self::UnknownFrame => "unknown_frame",
            Self::TokenExpired => "token_expired",
        }
    }

    pub fn meaning(self) -> &'static str {
        match self {
            Self::InvalidJson => "The frame is not valid JSON.",
            Self::InvalidFrame => "The frame is not an object, or a field is missing or has the wrong type.",
            Self::UnknownFrame => "The `type` of the frame is unknown.",
            Self::TokenExpired => "The token of the socket has expired. The plane closes the socket.",
        }
    }

    /// What a client should do.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::InvalidJson | Self::InvalidFrame | Self::UnknownFrame => {
                "Fix the client; the socket stays open."
            }
            Self::TokenExpired => "Reconnect with a new token.",
        }
    }
}
