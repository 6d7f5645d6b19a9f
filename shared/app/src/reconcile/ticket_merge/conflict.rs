//! What becomes of a branch that contradicts its base: events, and a task for an agent if that is wanted.

use super::{Deps, Progress, Stopped, event_of};
use crate::tasks::pull_request::Found;
use contract::payloads::{ConflictInFile, MergeConflict, TicketMergeConflict};
use domain::event::LifecycleEvent;
use domain::ticket::merge::{BranchState, TicketMerge};
use domain::ticket::resolve_conflicts;
use domain::{Task, Ticket};

/// Maximum number of files of a conflict in an event.
const MAX_FILES: usize = 50;
/// Maximum number of files that a reason names.
const MAX_NAMED_FILES: usize = 5;

/// A conflict becomes a task once. If it is still there afterwards, a person must look at it.
pub(super) async fn found(
    deps: Deps<'_>,
    ticket: &Ticket,
    merge: &TicketMerge,
    index: usize,
    found: Found,
    head: &str,
) -> Result<Progress, Stopped> {
    let Found { task, branch, repository } = found;
    let conflicts = repository.host.conflicts(&branch.base, &[head.to_owned()]).await?;
    let of_base = conflicts.pairs.into_iter().filter(|pair| pair.other.is_none());
    let files = of_base.flat_map(|pair| pair.files).take(MAX_FILES);
    let files: Vec<ConflictInFile> =
        files.map(|file| ConflictInFile { path: file.path, hunks: file.hunks }).collect();
    let is_first = merge.branches[index].resolved_by.is_none();
    let now = deps.clock.now();
    let resolver = (merge.resolve_conflicts && is_first).then(|| {
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let new = resolve_conflicts(ticket, &task, &branch, &paths);
        let resolver = Task { branch: Some(branch.clone()), ..new.into_task(deps.ids.task(), now) };
        resolver.created(&deps.orchestration.weights, now)
    });
    let resolved_by = resolver.as_ref().map(|created| created.task.id.clone());
    let reason = reason(&branch.base, &files, conflicts.estimated);
    let state = if resolver.is_some() { BranchState::Resolving } else { BranchState::Conflict };
    let mut merge = merge.clone();
    if let Some(id) = &resolved_by {
        merge.branches[index].resolved_by = Some(id.clone());
    }
    let mut progress = Progress::new(merge.with_branch(index, state, Some(&reason), now));
    let event = MergeConflict {
        task_id: task.id.clone(),
        ticket_id: ticket.id.clone(),
        branch: branch.name,
        base: branch.base,
        files,
        estimated: conflicts.estimated,
        resolved_by,
    };
    progress.events.push(LifecycleEvent::new(&TicketMergeConflict(event.clone())));
    progress.events.extend(event_of(ticket, &progress.merge, index));
    let told = task.merge_conflicts(event, now);
    progress.task = Some((task, told));
    progress.created = resolver;
    Ok(progress)
}

fn reason(base: &str, files: &[ConflictInFile], estimated: bool) -> String {
    let named: Vec<&str> = files.iter().take(MAX_NAMED_FILES).map(|file| file.path.as_str()).collect();
    let named = named.join(", ");
    let more = match files.len().checked_sub(MAX_NAMED_FILES) {
        Some(more) if more > 0 => format!(" and {more} more"),
        _ => String::new(),
    };
    match (files.is_empty(), estimated) {
        (true, _) => format!("It conflicts with {base}."),
        (false, false) => format!("It conflicts with {base} in {named}{more}."),
        (false, true) => format!("It conflicts with {base}; both sides have changed {named}{more}."),
    }
}
