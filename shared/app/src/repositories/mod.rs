//! Repositories and branches for a person who writes a ticket: only those that a ticket may name.

pub mod branches;
pub mod list;

use crate::orchestration::{CodeHosts, Orchestration};
use domain::OrgId;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub orchestration: &'a Orchestration,
    pub code_hosts: &'a CodeHosts,
    /// The org of an operator who names none.
    pub default_org: &'a OrgId,
}
