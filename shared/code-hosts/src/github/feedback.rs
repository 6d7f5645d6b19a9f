//! What reviewers and checks say about a pull request.

use super::GitHub;
use super::discussion::Discussion;
use super::reports::{Reports, check_run, commit_status};
use crate::feedback::last_lines;
use crate::{Check, CheckState, FailedCheck, Failure, Feedback, MAX_LOGS, PullRequestState};
use serde_json::{Value, json};

/// The App of GitHub Actions. The id of a check run of its is that of the job.
const ACTIONS: &str = "github-actions";

impl GitHub {
    pub(super) async fn read_feedback(&self, number: u64) -> Result<Option<Feedback>, Failure> {
        let Some(pull_request) = self.find_pull_request(number).await? else { return Ok(None) };
        if pull_request.state != PullRequestState::Open {
            return Ok(Some(Feedback::none(pull_request)));
        }
        let Some(discussion) = self.discussion(number).await? else { return Ok(None) };
        let Discussion { mut reviews, threads, comments } = discussion;
        // A review without a text holds comments about lines, which are threads.
        reviews.retain(|review| review.requests_changes || !review.comment.text.trim().is_empty());
        let Reports { runs, statuses } = self.reports(&pull_request.head_commit).await?;
        let mut failed_checks = Vec::new();
        let mut checks_pending = false;
        for (check, run) in checks(&runs, &statuses) {
            checks_pending |= check.state == CheckState::Pending;
            if check.state == CheckState::Failure {
                let is_logged = failed_checks.len() < MAX_LOGS;
                let log = if is_logged { self.log_of(run).await } else { None };
                let Check { name, summary, url, .. } = check;
                failed_checks.push(FailedCheck { name, summary, url, log });
            }
        }
        failed_checks.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Some(Feedback { pull_request, reviews, threads, comments, failed_checks, checks_pending }))
    }

    /// The end of the log of a check run: that of its job, or else what its App reports.
    async fn log_of(&self, run: Option<&Value>) -> Option<String> {
        let run = run?;
        let job = run["id"].as_u64().filter(|_| run["app"]["slug"] == json!(ACTIONS));
        let log = match job {
            Some(job) => self.job_log(job).await,
            None => None,
        };
        let reported = || {
            let text = |name: &str| run["output"][name].as_str().filter(|text| !text.trim().is_empty());
            text("text").or_else(|| text("summary")).map(str::to_owned)
        };
        log.or_else(reported).map(|log| last_lines(&log))
    }
}

/// All checks, with the check run if it is one.
fn checks<'a>(runs: &'a [Value], statuses: &'a [Value]) -> impl Iterator<Item = (Check, Option<&'a Value>)> {
    let of_runs = runs.iter().filter_map(|run| Some((check_run(run)?, Some(run))));
    of_runs.chain(statuses.iter().filter_map(|status| Some((commit_status(status)?, None))))
}
