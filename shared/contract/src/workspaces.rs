//! Kept work: pieces of files that a worker uploads, and what can be downloaded.

use crate::bad_input::BadInput;
use crate::fields::{Fields, required};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::kept::{Digest, Format, KeptFile, KeptWork, LeftOut, MAX_FILE_BYTES, PIECE_BYTES, pieces};
use domain::{SandboxId, TaskId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of pieces of a file.
pub const MAX_PIECES: u64 = MAX_FILE_BYTES.div_ceil(PIECE_BYTES);
/// Maximum number of parts of a workspace that are listed as left out.
pub const MAX_LEFT_OUT: usize = 50;
/// Maximum length of the path and of the reason of a part that is left out.
pub const MAX_LEFT_OUT_CHARS: usize = 500;

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Of the whole file.
    pub sha256: Digest,
    /// From 1.
    pub number: u64,
    pub data: Vec<u8>,
}

impl Piece {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let fields = Fields::decode(body)?;
        let sha256 = digest(&fields)?;
        let number = required("piece", fields.integer("piece", 1..=MAX_PIECES)?)?;
        let data = required("data", fields.text("data")?)?;
        let data = STANDARD.decode(data).map_err(|_| BadInput::invalid("data", "must be base64"))?;
        if data.len() as u64 > PIECE_BYTES {
            return Err(BadInput::too_large("data", usize::try_from(PIECE_BYTES).unwrap_or(usize::MAX)));
        }
        Ok(Self { sha256, number, data })
    }
}

/// What a worker has uploaded of its workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    pub files: Vec<KeptFile>,
    pub left_out: Vec<LeftOut>,
    pub left_out_count: u64,
}

impl Keep {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let fields = Fields::decode(body)?;
        let list = required("files", fields.objects("files", Format::ALL.len())?)?;
        if list.is_empty() {
            return Err(BadInput::invalid("files", "must not be empty"));
        }
        let mut files: Vec<KeptFile> = Vec::with_capacity(list.len());
        for (index, file) in list.iter().enumerate() {
            let file = kept_file(file).map_err(|wrong| inside(wrong, &format!("files[{index}]")))?;
            if files.iter().any(|other| other.format == file.format) {
                return Err(BadInput::invalid(format!("files[{index}].format"), "must not occur twice"));
            }
            files.push(file);
        }
        let mut left_out = Vec::new();
        for (index, part) in fields.objects("left_out", MAX_LEFT_OUT)?.unwrap_or_default().iter().enumerate()
        {
            left_out.push(part_left_out(part).map_err(|wrong| inside(wrong, &format!("left_out[{index}]")))?);
        }
        let count = fields.integer("left_out_count", 0..=u64::from(u32::MAX))?.unwrap_or_default();
        Ok(Self { files, left_out_count: count.max(left_out.len() as u64), left_out })
    }
}

fn kept_file(fields: &Fields) -> Result<KeptFile, BadInput> {
    Ok(KeptFile {
        format: required("format", fields.one_of("format", &Format::ALL.map(|one| (one.as_str(), one)))?)?,
        size_bytes: required("size_bytes", fields.integer("size_bytes", 0..=MAX_FILE_BYTES)?)?,
        sha256: digest(fields)?,
    })
}

fn part_left_out(fields: &Fields) -> Result<LeftOut, BadInput> {
    let text = |field: &str| {
        let text = required(field, fields.text(field)?)?;
        match text.chars().count() {
            1..=MAX_LEFT_OUT_CHARS => Ok(text.to_owned()),
            _ => Err(BadInput::invalid(field, format!("must be 1 to {MAX_LEFT_OUT_CHARS} characters"))),
        }
    };
    Ok(LeftOut { path: text("path")?, reason: text("reason")? })
}

fn digest(fields: &Fields) -> Result<Digest, BadInput> {
    let digest = Digest::parse(required("sha256", fields.text("sha256")?)?);
    digest
        .ok_or_else(|| BadInput::invalid("sha256", "must be 64 hexadecimal digits, a to f in small letters"))
}

fn inside(wrong: BadInput, parent: &str) -> BadInput {
    match wrong {
        BadInput::Invalid(wrong) => BadInput::Invalid(wrong.inside(parent)),
        other => other,
    }
}

/// Response to a piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PieceStored {
    /// Always `stored`.
    pub status: String,
    pub sha256: String,
    pub piece: u64,
}

/// `GET /api/v1/tasks/{id}/workspace/files`: the kept work of one attempt at a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskWorkspace {
    pub task_id: TaskId,
    pub sandbox_id: SandboxId,
    /// Number of the attempt.
    pub attempt: u32,
    pub kept_at: Timestamp,
    /// Until when it can be downloaded.
    pub expires_at: Timestamp,
    pub files: Vec<WorkspaceFile>,
    /// The first parts of the workspace that are not kept.
    pub left_out: Vec<LeftOut>,
    /// Number of parts that are not kept.
    pub left_out_count: u64,
}

/// A file that can be downloaded, with `GET /api/v1/tasks/{id}/workspace?format=…`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceFile {
    pub format: Format,
    pub size_bytes: u64,
    pub sha256: String,
    /// Number of pieces. A file with more than one is downloaded with `piece=1`, `piece=2` and so on.
    pub pieces: u64,
}

impl TaskWorkspace {
    pub fn new(task_id: TaskId, kept: KeptWork) -> Self {
        let file = |file: KeptFile| WorkspaceFile {
            format: file.format,
            size_bytes: file.size_bytes,
            pieces: pieces(file.size_bytes),
            sha256: file.sha256.as_str().to_owned(),
        };
        Self {
            task_id,
            sandbox_id: kept.sandbox,
            attempt: kept.attempt,
            kept_at: kept.kept_at,
            expires_at: kept.expires_at,
            files: kept.files.into_iter().map(file).collect(),
            left_out: kept.left_out,
            left_out_count: kept.left_out_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn field(decoded: Result<impl std::fmt::Debug, BadInput>) -> String {
        match decoded {
            Err(BadInput::Invalid(wrong) | BadInput::TooLarge(wrong)) => wrong.field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn piece_is_decoded_and_the_invalid_field_is_named() {
        let sha256 = "0f".repeat(32);
        let piece = |sha256: &str, piece: Value, data: &str| {
            Piece::decode(json!({"sha256": sha256, "piece": piece, "data": data}).to_string().as_bytes())
        };
        let decoded = piece(&sha256, json!(7), "AAH/").unwrap();
        assert_eq!((decoded.number, decoded.data.as_slice()), (7, &[0, 1, 255][..]));
        assert!(piece(&sha256, json!(1), "").unwrap().data.is_empty());
        assert_eq!(field(piece("0F", json!(1), "")), "sha256");
        assert_eq!(field(piece(&sha256, json!(0), "")), "piece");
        assert_eq!(field(piece(&sha256, json!(MAX_PIECES + 1), "")), "piece");
        assert_eq!(field(piece(&sha256, json!(1), "%")), "data");
        let large = STANDARD.encode(vec![0; usize::try_from(PIECE_BYTES).unwrap() + 1]);
        assert_eq!(field(piece(&sha256, json!(1), &large)), "data");
        assert_eq!(field(Piece::decode(b"{}")), "sha256");
    }

    #[test]
    fn kept_work_is_decoded_and_the_invalid_field_is_named() {
        let file = |format: &str| json!({"format": format, "size_bytes": 3, "sha256": "0f".repeat(32)});
        let keep = |body: Value| Keep::decode(body.to_string().as_bytes());
        let decoded = keep(json!({
            "files": [file("archive"), file("patch")], "left_out": [{"path": "a\nb", "reason": "too large"}],
        }));
        let decoded = decoded.unwrap();
        assert_eq!((decoded.files.len(), decoded.left_out_count), (2, 1));
        assert_eq!(decoded.left_out[0].path, "a\nb", "names may contain line breaks");
        let count = keep(json!({"files": [file("bundle")], "left_out_count": 9})).unwrap().left_out_count;
        assert_eq!(count, 9);
        let large = json!({"format": "patch", "size_bytes": MAX_FILE_BYTES + 1, "sha256": "0f".repeat(32)});
        for (body, expected) in [
            (json!({}), "files"),
            (json!({"files": []}), "files"),
            (json!({"files": [1]}), "files[0]"),
            (json!({"files": [file("zip")]}), "files[0].format"),
            (json!({"files": [file("patch"), file("patch")]}), "files[1].format"),
            (json!({"files": [large]}), "files[0].size_bytes"),
            (json!({"files": [{"format": "patch", "size_bytes": 1}]}), "files[0].sha256"),
            (json!({"files": [file("patch")], "left_out": [{"path": ""}]}), "left_out[0].path"),
            (json!({"files": [file("patch")], "left_out": [{"path": "a"}]}), "left_out[0].reason"),
            (json!({"files": [file("patch")], "left_out_count": -1}), "left_out_count"),
        ] {
            assert_eq!(field(keep(body.clone())), expected, "{body}");
        }
    }
}
