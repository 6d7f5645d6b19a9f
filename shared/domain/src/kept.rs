//! Kept work: what a worker has uploaded of its workspace, so that it outlives the sandbox.
//!
//! A file is uploaded in pieces under the hash of its content, and becomes a part of the kept work when all of them are
//! stored. So kept work never refers to an incomplete file, and a retry stores the same pieces again.

use crate::{SandboxId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Size of a piece of a file; the last one may be smaller. In base64 and with what is around it, it fits into a request and
/// a response of Lambda.
pub const PIECE_BYTES: u64 = 2 * 1024 * 1024;

/// Maximum size of a file.
pub const MAX_FILE_BYTES: u64 = 128 * 1024 * 1024;

/// Default of the number of days for which work is kept.
pub const DEFAULT_DAYS: u32 = 30;

/// Maximum number of days for which work is kept.
pub const MAX_DAYS: u32 = 3650;

/// The forms in which work is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "WorkspaceFormat")]
pub enum Format {
    /// The files of the workspace: tar, compressed with zstd.
    Archive,
    /// The changes since the agent began, as `git apply` reads them.
    Patch,
    /// Commits that did not reach the code host, as `git fetch` reads them.
    Bundle,
}

impl Format {
    pub const ALL: [Self; 3] = [Self::Archive, Self::Patch, Self::Bundle];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Patch => "patch",
            Self::Bundle => "bundle",
        }
    }

    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Archive => "application/zstd",
            Self::Patch => "text/x-diff",
            Self::Bundle => "application/x-git-bundle",
        }
    }

    /// The end of the name of a downloaded file.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Archive => "tar.zst",
            Self::Patch => "patch",
            Self::Bundle => "bundle",
        }
    }
}

/// The SHA-256 of a file, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

/// What a [`Digest`] may be, for documents.
pub const DIGEST_PATTERN: &str = "^[0-9a-f]{64}$";

impl Digest {
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == 64 && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    pub format: Format,
    pub size_bytes: u64,
    pub sha256: Digest,
}

impl KeptFile {
    /// Number of its pieces, which are numbered from 1.
    pub fn pieces(&self) -> u64 {
        pieces(self.size_bytes)
    }
}

/// Number of pieces of a file of this size. An empty file has one, which is empty.
pub fn pieces(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(PIECE_BYTES).max(1)
}

/// A part of the workspace that is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorkspaceLeftOut")]
pub struct LeftOut {
    /// In the workspace.
    pub path: String,
    pub reason: String,
}

/// The kept work of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptWork {
    pub sandbox: SandboxId,
    /// Number of the attempt.
    pub attempt: u32,
    pub kept_at: Timestamp,
    /// Until when it can be downloaded.
    pub expires_at: Timestamp,
    pub files: Vec<KeptFile>,
    /// The first parts that are not kept.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// Number of parts that are not kept.
    #[serde(default)]
    pub left_out_count: u64,
}

impl KeptWork {
    /// The file of this format. Without one, the files of the workspace, or else the commits, or else the changes.
    pub fn file(&self, format: Option<Format>) -> Option<&KeptFile> {
        let of = |format: Format| self.files.iter().find(|file| file.format == format);
        match format {
            Some(format) => of(format),
            None => of(Format::Archive).or_else(|| of(Format::Bundle)).or_else(|| of(Format::Patch)),
        }
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        now > self.expires_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_at_least_one_piece_and_only_the_last_may_be_smaller() {
        for (size, expected) in [(0, 1), (1, 1), (PIECE_BYTES, 1), (PIECE_BYTES + 1, 2), (3 * PIECE_BYTES, 3)]
        {
            assert_eq!(pieces(size), expected, "{size}");
        }
    }

    #[test]
    fn digest_is_64_small_hexadecimal_digits() {
        assert!(Digest::parse(&"0f".repeat(32)).is_some());
        for text in ["", "0f", &"0F".repeat(32), &"0g".repeat(32), &"0f".repeat(33)] {
            assert_eq!(Digest::parse(text), None, "{text}");
        }
    }

    #[test]
    fn files_of_the_workspace_are_preferred_to_commits_and_changes() {
        let file = |format| KeptFile { format, size_bytes: 1, sha256: Digest("0".repeat(64)) };
        let kept = |formats: &[Format]| KeptWork {
            sandbox: SandboxId::parse("s-1").unwrap(),
            attempt: 1,
            kept_at: Timestamp::from_secs(0),
            expires_at: Timestamp::from_secs(60),
            files: formats.iter().copied().map(file).collect(),
            left_out: Vec::new(),
            left_out_count: 0,
        };
        let first = |formats: &[Format]| kept(formats).file(None).map(|file| file.format);
        assert_eq!(first(&[Format::Patch, Format::Bundle, Format::Archive]), Some(Format::Archive));
        assert_eq!(first(&[Format::Patch, Format::Bundle]), Some(Format::Bundle));
        assert_eq!(first(&[Format::Patch]), Some(Format::Patch));
        assert_eq!(first(&[]), None);
        assert_eq!(kept(&[Format::Patch]).file(Some(Format::Archive)), None);
        assert!(!kept(&[]).is_expired(Timestamp::from_secs(60)));
        assert!(kept(&[]).is_expired(Timestamp::from_secs(61)));
    }
}
