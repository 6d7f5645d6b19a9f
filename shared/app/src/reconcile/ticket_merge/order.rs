//! Finds the order of merging: fewest conflicts first.

use super::{Deps, Progress, Stopped};
use crate::tasks::pull_request::{self, Found};
use contract::payloads::{OrderedBranch, TicketMergeOrdered};
use domain::event::LifecycleEvent;
use domain::ticket::merge::TicketMerge;
use domain::{Ticket, Timestamp};
use std::collections::BTreeMap;

/// Branches that go to the same base of the same repository, by these two: their indices and newest commits.
type Groups = BTreeMap<(String, String), Vec<(usize, String, Found)>>;

/// Compares every branch with its base and with the other branches of that base.
pub(super) async fn find(deps: Deps<'_>, ticket: &Ticket, merge: &TicketMerge) -> Result<Progress, Stopped> {
    let mut groups = Groups::new();
    for (index, branch) in merge.branches.iter().enumerate() {
        let Some(task) = deps.store.task(&branch.task_id).await? else { continue };
        // A branch that cannot be found has no conflicts; its own step says what is wrong with it.
        let Ok(found) = pull_request::of_task(deps.pull_requests(), task).await else { continue };
        let Some(head) = found.repository.host.branch(&found.branch.name).await? else { continue };
        let group = (found.repository.address.clone(), found.branch.base.clone());
        groups.entry(group).or_default().push((index, head, found));
    }
    let (mut conflicts, mut estimated) = (vec![0_u32; merge.branches.len()], false);
    for ((_, base), members) in &groups {
        let heads: Vec<String> = members.iter().map(|(_, head, _)| head.clone()).collect();
        let Some((_, _, first)) = members.first() else { continue };
        let found = first.repository.host.conflicts(base, &heads).await?;
        estimated |= found.estimated;
        for pair in &found.pairs {
            let files = u32::try_from(pair.files.len()).unwrap_or(u32::MAX);
            for member in [Some(pair.one), pair.other].into_iter().flatten() {
                let index = members.get(member).map(|(index, ..)| *index);
                if let Some(count) = index.and_then(|index| conflicts.get_mut(index)) {
                    *count = count.saturating_add(files);
                }
            }
        }
    }
    Ok(ordered(ticket, merge.clone(), &conflicts, estimated, None, deps.clock.now()))
}

/// The code host could not be asked: the order is that of the tasks.
pub(super) fn unknown(ticket: &Ticket, merge: TicketMerge, reason: &str, now: Timestamp) -> Progress {
    let conflicts = vec![0; merge.branches.len()];
    ordered(ticket, merge, &conflicts, true, Some(reason.to_owned()), now)
}

fn ordered(
    ticket: &Ticket,
    merge: TicketMerge,
    conflicts: &[u32],
    estimated: bool,
    reason: Option<String>,
    now: Timestamp,
) -> Progress {
    let mut progress = Progress::new(merge.ordered(conflicts, now));
    let order = progress.merge.branches.iter().map(|branch| OrderedBranch {
        task_id: branch.task_id.clone(),
        branch: branch.branch.clone(),
        conflicts: branch.conflicts,
    });
    let event =
        TicketMergeOrdered { ticket_id: ticket.id.clone(), order: order.collect(), estimated, reason };
    progress.events.push(LifecycleEvent::new(&event));
    progress
}
