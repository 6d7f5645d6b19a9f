//! Responses with what a person can choose from: repositories and their branches.

use crate::query::Parameter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum length of the text that a list is searched for.
pub const MAX_QUERY_CHARS: usize = 500;
/// Maximum number of branches in a response.
pub const MAX_BRANCHES: usize = 100;

/// Part of the names that are wanted.
pub const QUERY: Parameter = Parameter::text(
    "query",
    "Part of the name; upper and lower case are equal. An operator of a local plane can send the beginning of a path \
     (`/home/me/`) for the directories that it can become.",
)
.up_to_chars(MAX_QUERY_CHARS);

/// `GET /api/v1/repositories`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepositoryList {
    pub repositories: Vec<RepositoryOut>,
    /// Send it as `cursor` for the next page; `null` on the last page. A page may be empty and not the last.
    pub next_cursor: Option<String>,
    pub has_more: bool,
    /// Code hosts that could not be asked.
    pub unavailable: Vec<UnavailableCodeHost>,
}

/// A repository of which this plane has a credential, or a directory of its machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Repository")]
pub struct RepositoryOut {
    /// What a ticket names: `owner/name`, a URL, or a path.
    pub repository: String,
    /// `github` or `local`.
    pub code_host: String,
    pub description: Option<String>,
    pub default_branch: Option<String>,
    /// `false` for a directory that may have repositories below it.
    pub is_repository: bool,
}

/// A code host that could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnavailableCodeHost {
    pub code_host: String,
    /// Why, and what to do about it.
    pub detail: String,
}

/// `GET /api/v1/repositories/branches`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BranchList {
    /// As the request named it.
    pub repository: String,
    pub default_branch: String,
    /// The default branch first, then sorted by name.
    pub branches: Vec<BranchOut>,
    /// Whether there are more, which a longer `query` finds.
    pub has_more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Branch")]
pub struct BranchOut {
    pub name: String,
    /// Its newest commit.
    pub commit: String,
}
