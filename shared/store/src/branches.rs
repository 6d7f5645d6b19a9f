//! Claims of tasks on names of branches.

use crate::error::Error;
use crate::items::{get_text, start, text};
use crate::{Store, keys};
use aws_sdk_dynamodb::error::SdkError;
use domain::TaskId;

/// The task that a branch belongs to, and where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchClaim {
    pub task: TaskId,
    pub base_commit: String,
}

impl Store {
    /// Claims the name of a branch, unless it is claimed already. Returns the claim that holds. It is never released: a
    /// branch outlives its task.
    ///
    /// **Invariant:** at most one task has a claim on a branch of a repository.
    pub async fn claim_branch(
        &self,
        repository: &str,
        branch: &str,
        claim: BranchClaim,
    ) -> Result<BranchClaim, Error> {
        let mut item = start(keys::branch_claim(repository, branch), "branch");
        item.insert("task".into(), text(claim.task.as_str()));
        item.insert("base_commit".into(), text(claim.base_commit.as_str()));
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(#pk)")
            .expression_attribute_names("#pk", keys::PK);
        match put.send().await {
            Ok(_) => Ok(claim),
            Err(SdkError::ServiceError(refused)) if refused.err().is_conditional_check_failed_exception() => {
                self.branch_claim(repository, branch)
                    .await?
                    .ok_or_else(|| Error::malformed(format!("the claim on branch {branch} was deleted")))
            }
            Err(error) => Err(Error::from_table(error)),
        }
    }

    pub async fn branch_claim(&self, repository: &str, branch: &str) -> Result<Option<BranchClaim>, Error> {
        let key = keys::branch_claim(repository, branch).attributes().into();
        let get = self.client.get_item().table_name(&self.table).consistent_read(true).set_key(Some(key));
        let Some(item) = get.send().await.map_err(Error::from_table)?.item else { return Ok(None) };
        let task = TaskId::parse(get_text(&item, "task")?);
        let task = task.map_err(|invalid| Error::malformed(invalid.to_string()))?;
        Ok(Some(BranchClaim { task, base_commit: get_text(&item, "base_commit")?.to_owned() }))
    }
}
