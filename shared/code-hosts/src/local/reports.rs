//! Reports about commits. Nothing but the plane reports on this machine, so they are all checks that exist.

use super::repository::Repository;
use crate::{Check, CheckState, Failure, Reason, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The blob of a commit: reports by name.
type Reports = BTreeMap<String, Report>;

#[derive(Debug, Serialize, Deserialize)]
struct Report {
    state: CheckState,
    summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

impl Repository {
    pub(super) async fn report_status(&self, commit: &str, status: &Status) -> Result<(), Failure> {
        let _lock = self.lock().await?;
        let (blob, mut reports) = self.reports(commit).await?;
        let Status { name, state, summary, url } = status.clone();
        reports.insert(name, Report { state, summary, url });
        let json = serde_json::to_vec(&reports).expect("reports have string keys only");
        let new = self.store_blob(&json).await?;
        let command = match blob {
            Some(old) => format!("update {} {new} {old}", reference(commit)),
            None => format!("create {} {new}", reference(commit)),
        };
        self.update_refs(&[command]).await
    }

    pub(super) async fn checks(&self, commit: &str) -> Result<Vec<Check>, Failure> {
        let (_, reports) = self.reports(commit).await?;
        let check = |(name, Report { state, summary, url })| Check {
            name,
            state,
            summary: Some(summary).filter(|text: &String| !text.is_empty()),
            url,
        };
        Ok(reports.into_iter().map(check).collect())
    }

    /// The stored reports, and the id of their blob.
    async fn reports(&self, commit: &str) -> Result<(Option<String>, Reports), Failure> {
        if !self.has_commit(commit).await? {
            let message = format!("{} has no commit {commit}", self.directory.display());
            return Err(Failure::new(Reason::NotFound, message));
        }
        let Some(blob) = self.reference(&reference(commit)).await? else { return Ok(Default::default()) };
        let content = self.blobs([blob.as_str()].into_iter()).await?.pop().unwrap_or_default();
        let reports = serde_json::from_slice(&content).map_err(|error| {
            Failure::new(Reason::Invalid, format!("{} cannot be read: {error}", reference(commit)))
        })?;
        Ok((Some(blob), reports))
    }
}

fn reference(commit: &str) -> String {
    format!("refs/sunaba/checks/{commit}")
}
