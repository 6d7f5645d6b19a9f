//! What a task has changed: its branch, compared with the base at the code host.

use super::pull_request::{self, Found, find, of_code_host};
use crate::error::Error;
use code_hosts::{FileChange, FileStatus};
use contract::tasks::{FileDiff, TaskDiff};
use domain::TaskId;
use domain::access::Principal;

pub type Deps<'a> = pull_request::Deps<'a>;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub task: TaskId,
}

pub type Outcome = TaskDiff;

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Found { task, branch, repository } = find(deps, &command.principal, &command.task).await?;
    let host = repository.host.as_ref();
    // After the merge the branch may not exist, but its commit does.
    let head = host.branch(&branch.name).await.map_err(of_code_host)?;
    let merged = branch.pull_request.as_ref().filter(|link| head.is_none() || link.merged_at.is_some());
    let (base, head) = match (merged, head) {
        (Some(link), _) => (branch.base_commit.clone(), link.commit.clone()),
        (None, Some(head)) => (branch.base.clone(), head),
        (None, None) => (branch.base.clone(), branch.name.clone()),
    };
    let compared = host.compare(&base, &head).await.map_err(of_code_host)?;
    Ok(TaskDiff {
        task_id: task.id,
        branch: branch.name,
        base: branch.base,
        commit: head,
        ahead: compared.ahead,
        behind: compared.behind,
        files: compared.files.into_iter().map(file_diff).collect(),
        files_truncated: compared.files_cut,
    })
}

fn file_diff(file: FileChange) -> FileDiff {
    let change_type = match file.status {
        FileStatus::Added => "created",
        FileStatus::Modified => "modified",
        FileStatus::Removed => "deleted",
        FileStatus::Renamed => "renamed",
        FileStatus::Copied => "copied",
    };
    FileDiff {
        path: file.path,
        previous_path: file.previous_path,
        change_type: change_type.to_owned(),
        additions: file.additions,
        deletions: file.deletions,
        diff: file.patch,
        diff_truncated: file.patch_cut,
    }
}
