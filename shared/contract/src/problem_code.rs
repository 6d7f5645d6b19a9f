//! Every error code of the HTTP API, with its status, its meaning and what a client does about it.
//!
//! `docs/errors.md` is generated from this table.

/// Defines [`ProblemCode`] from one row per code.
macro_rules! problem_codes {
    ($($name:ident = $code:literal, $status:literal, $meaning:literal, $remedy:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ProblemCode {
            $($name,)*
        }

        impl ProblemCode {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// The HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }

            /// What a client should do.
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$name => $remedy,)* }
            }
        }
    };
}

problem_codes! {
    Malformed = "malformed", 400, "The body is not valid JSON, or not UTF-8.", "Fix the client; a retry fails again.";
    Unauthorized = "unauthorized", 401, "The token is missing, invalid, expired or replaced by a newer one.", "Get a new token.";
    Forbidden = "forbidden", 403, "The token does not allow this operation.", "Use a token with the required role.";
    OriginNotAllowed = "origin_not_allowed", 403, "The page that sent the request has an origin that is not allowed.", "Add the origin to `SUNABA_ORIGINS`.";
    OwnTicket = "own_ticket", 403, "The author of a ticket cannot approve it.", "Ask another member or the operator to approve it.";
    NotFound = "not_found", 404, "The entity does not exist, or belongs to another org.", "Check the id; do not retry.";
    RouteNotFound = "route_not_found", 404, "No route matches the path.", "Fix the client.";
    MethodNotAllowed = "method_not_allowed", 405, "The path does not support the method.", "Fix the client.";
    RequestTimeout = "request_timeout", 408, "The body was incomplete or did not arrive within 30 s.", "Retry.";
    StaleEpoch = "stale_epoch", 409, "A newer run of the worker has written (`current_epoch`).", "Stop: another worker has taken over.";
    EpochTooHigh = "epoch_too_high", 409, "The epoch is too far ahead of the last one (`current_epoch`, `max_epoch`). Nothing was stored.", "Start a new epoch: `current_epoch` + 1.";
    BatchGap = "batch_gap", 409, "A batch before this one is missing (`expected_batch`).", "Send the missing batch first, or start a new epoch.";
    BatchChanged = "batch_changed", 409, "The batch number was used for other events. Nothing was stored.", "Start a new epoch only if no other worker runs.";
    BatchExpired = "batch_expired", 409, "The batch number was used too long ago to compare (`expected_batch`).", "Start a new epoch.";
    SandboxExists = "sandbox_exists", 409, "The sandbox id is already registered.", "Choose another id.";
    SandboxFinished = "sandbox_finished", 409, "The sandbox has ended (`reason`).", "Stop sending.";
    SandboxNotRunning = "sandbox_not_running", 409, "The sandbox is not running, so its task cannot be completed (`current_status`).", "Stop.";
    MessageChanged = "message_changed", 409, "The message id was used for another text or type. Nothing was sent.", "Choose another id.";
    MessageDelivered = "message_delivered", 409, "The worker has acknowledged the message; it cannot be cancelled (`state`).", "Send `interrupt` or `stop`.";
    MessageNotUndeliverable = "message_not_undeliverable", 409, "Only an undeliverable message can be sent again (`state`).", "Send a new message.";
    MailboxFull = "mailbox_full", 409, "The maximum number of messages is waiting (`queue_size`).", "Check that the worker is running; retry later.";
    EntriesGap = "entries_gap", 409, "Entries before these are missing (`expected_first`).", "Send from there on.";
    EntriesChanged = "entries_changed", 409, "Entry `number` is stored with other content. Nothing was stored.", "Stop adding: two runs share one session.";
    SessionSuperseded = "session_superseded", 409, "Another sandbox has resumed the session.", "Stop adding.";
    TaskExists = "task_exists", 409, "A task with this id exists with other content. Nothing was stored.", "Choose another id.";
    TaskFinished = "task_finished", 409, "The task has finished (`current_status`).", "Do not retry.";
    TaskNotFinished = "task_not_finished", 409, "Only a failed or cancelled task can be retried (`current_status`).", "Wait, or cancel it first.";
    TaskNotPending = "task_not_pending", 409, "The task has started, so its dependencies are fixed (`current_status`).", "Do not retry.";
    TaskNotValidating = "task_not_validating", 409, "The task is not waiting for a review.", "Do not retry.";
    TaskMismatch = "task_mismatch", 409, "The task is not assigned to this sandbox, or no longer.", "Stop.";
    OutcomeAlreadyRecorded = "outcome_already_recorded", 409, "The outcome of this attempt is already recorded (`current_status`).", "Do not retry.";
    DependencyCycle = "dependency_cycle", 409, "The task would depend on itself (`cycle`).", "Remove one of the dependencies.";
    DependenciesTooLarge = "dependencies_too_large", 409, "There are too many dependencies to check for a cycle (`max_tasks`, `max_levels`).", "Use fewer dependencies.";
    TicketNotApproved = "ticket_not_approved", 409, "The ticket is waiting for approval, or was rejected (`approval_status`).", "Approve the ticket first.";
    TicketRequired = "ticket_required", 409, "Tickets need approval on this plane, and the task belongs to no ticket.", "Create a ticket, have it approved, and send its id as `ticket_id`.";
    NoBranch = "no_branch", 409, "The task has no branch that the plane has created.", "Name a repository of which the plane has a credential; wait until the task has a sandbox.";
    TaskActive = "task_active", 409, "The task has not ended yet (`current_status`).", "Wait until it has ended, or cancel it.";
    NoRepository = "no_repository", 409, "This plane has no credential for the repository, or the task of the sandbox has none.", "Name a repository of which the plane has a credential; a worker does not ask again.";
    NoPullRequest = "no_pull_request", 409, "The task has no pull request.", "Open it first, with `POST /api/v1/tasks/{id}/pull-request`.";
    CodeHostRefused = "code_host_refused", 409, "The code host did not accept the operation (`reason`).", "Follow the detail: it says what to change.";
    NoWorkspace = "no_workspace", 409, "No work of the task is kept, or not in this format.", "Get `/api/v1/tasks/{id}/workspace/files`, or the branch of the task.";
    TicketIdTaken = "ticket_id_taken", 409, "The ticket id is already used.", "Choose another id.";
    TicketChanged = "ticket_changed", 409, "A ticket with this id exists with other content. Nothing was stored.", "Choose another id.";
    AlreadyInStatus = "already_in_status", 409, "The ticket is already in that status (`current_status`).", "Do not retry.";
    TransitionNotAllowed = "transition_not_allowed", 409, "The ticket cannot move to that status (`allowed`).", "Choose an allowed status, or use `force`.";
    ApprovalNotPending = "approval_not_pending", 409, "The ticket is not waiting for approval (`approval_status`).", "Do not retry.";
    WorkspaceExpired = "workspace_expired", 410, "The work of the task was kept for a limited time, which is over.", "Do not retry.";
    TooLarge = "too_large", 413, "The body, batch or event exceeds a size limit (`field`).", "Split the batch, or shorten the event.";
    HostNotAllowed = "host_not_allowed", 421, "The server does not serve this host name.", "Add the name to `SUNABA_HOSTS`.";
    Invalid = "invalid", 422, "A field is invalid (`field`).", "Fix the request; the batch number is not used up.";
    RateLimited = "rate_limited", 429, "A quota is used up for this minute, or a socket changes its subscription too often. Nothing was stored.", "Wait for `Retry-After` seconds, then retry.";
    Internal = "internal", 500, "A bug in the control plane.", "Retry with exponential backoff; report the `request_id`.";
    CodeHostUnavailable = "code_host_unavailable", 503, "The code host of the repository does not respond. The plane does.", "Wait for `Retry-After` seconds, then retry. A retry is safe.";
    Unavailable = "unavailable", 503, "A dependency does not respond.", "Wait for `Retry-After` seconds, then retry. A retry is safe.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_unique_and_snake_case() {
        let codes: BTreeSet<&str> = ProblemCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes.len(), ProblemCode::ALL.len(), "a code occurs twice");
        for code in codes {
            let words = code.split('_');
            let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase());
            assert!(words.into_iter().all(is_word), "{code:?} is not snake_case");
        }
    }

    #[test]
    fn codes_are_ordered_by_error_status() {
        assert!(ProblemCode::ALL.is_sorted_by_key(|code| code.status()));
        assert!(ProblemCode::ALL.iter().all(|code| (400..600).contains(&code.status())));
    }
}
