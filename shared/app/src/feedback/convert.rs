//! Feedback of a code host, in the terms of the rules.

use crate::tasks::pull_request::CHECK;
use code_hosts::{Comment, FailedCheck, Review, Thread};
use domain::feedback::{self, Feedback, Said, Standing};

pub(crate) fn feedback(found: code_hosts::Feedback) -> Feedback {
    let code_hosts::Feedback { pull_request, reviews, threads, comments, failed_checks, checks_pending } =
        found;
    let checks = failed_checks.into_iter().filter(|check| check.name != CHECK);
    Feedback {
        commit: pull_request.head_commit,
        conflicts: pull_request.mergeable == Some(false),
        reviews: reviews.into_iter().map(|Review { comment, .. }| said(comment)).collect(),
        comments: comments.into_iter().map(said).collect(),
        threads: threads.into_iter().map(thread).collect(),
        failed_checks: checks
            .map(|FailedCheck { name, summary, log, .. }| feedback::FailedCheck { name, summary, log })
            .collect(),
        checks_pending,
    }
}

fn thread(thread: Thread) -> feedback::Thread {
    let Thread { id, path, line, is_resolved, comments } = thread;
    feedback::Thread { id, path, line, is_resolved, comments: comments.into_iter().map(said).collect() }
}

fn said(comment: Comment) -> Said {
    let standing = match comment.author.standing {
        code_hosts::Standing::Own => Standing::Own,
        code_hosts::Standing::Owner => Standing::Owner,
        code_hosts::Standing::Member => Standing::Member,
        code_hosts::Standing::Collaborator => Standing::Collaborator,
        code_hosts::Standing::ListedBot => Standing::ListedBot,
        code_hosts::Standing::Other => Standing::Other,
    };
    Said { id: comment.id, author: comment.author.name, standing, text: comment.text }
}
