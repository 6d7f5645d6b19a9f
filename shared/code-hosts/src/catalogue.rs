//! The repositories that a credential reaches, for a person who chooses one.

use crate::HostFuture;
use std::fmt;

/// Maximum number of entries that a host collects before it returns a page. A page may have more, because the pages of a
/// remote host are not split.
pub const PAGE_SIZE: usize = 50;

/// What a person can choose from. Every call has a deadline and changes nothing.
pub trait Catalogue: Send + Sync + fmt::Debug {
    /// A page of the repositories whose name contains `query`, regardless of case. It may be empty and not the last.
    /// `cursor` is [`Listing::next`] of the page before; another one is [`Reason::Invalid`](crate::Reason::Invalid).
    fn list<'a>(&'a self, query: &'a str, cursor: Option<&'a str>) -> HostFuture<'a, Listing>;
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    pub entries: Vec<Entry>,
    pub next: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What a request can name, and a person recognizes: `owner/name`, a URL, or a directory.
    pub name: String,
    /// For git, without a credential.
    pub address: String,
    pub description: Option<String>,
    pub default_branch: Option<String>,
    /// `false` for a directory that may have repositories below it.
    pub is_repository: bool,
}
