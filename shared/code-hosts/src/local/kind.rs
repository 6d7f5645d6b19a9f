//! Repositories on the machine of the plane. Only the local host lists this kind.

use super::catalogue::Folders;
use super::{Local, NAME};
use crate::{Catalogue, CodeHost, CodeHostKind};
use std::sync::Arc;

/// Serves directories, and URLs of files. It needs no credential.
pub const LOCAL: CodeHostKind = CodeHostKind {
    name: NAME,
    title: "This machine",
    variables: &[],
    open: |address, _, environment| {
        let path = address.strip_prefix("file://").unwrap_or(address);
        let directory = path.starts_with('/').then_some(path);
        Ok(directory.map(|directory| Arc::new(Local::new(directory, environment)) as Arc<dyn CodeHost>))
    },
    catalogue: |_, environment| {
        let allowed = environment.folders.clone();
        Ok((!allowed.is_empty()).then(|| Arc::new(Folders { allowed }) as Arc<dyn Catalogue>))
    },
    is_of_this_machine: true,
};
