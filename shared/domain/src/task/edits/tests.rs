//! Edits of a task in every state.

use super::*;
use crate::task::transitions::tests::{at, id, in_state, state_of};

/// A row per state: the result of an edit, the state with one unmet dependency, and the state without dependencies.
const EDITS: [(&str, &str, &str, &str); 10] = [
    ("waiting", "changed", "waiting", "queued"),
    ("queued", "changed", "waiting", "queued"),
    ("claiming", "changed", ".", "."),
    ("assigned", "changed", ".", "."),
    ("running", "changed", ".", "."),
    ("validating", "changed", ".", "."),
    ("needs_revision", "changed", ".", "."),
    ("completed", "finished", ".", "."),
    ("failed", "finished", ".", "."),
    ("cancelled", "finished", ".", "."),
];

#[test]
fn finished_tasks_are_not_edited_and_started_tasks_get_no_dependencies() {
    let (now, weights) = (at(1_000), &Weights::default());
    let edit = Edit { priority: Some(Priority::Critical), ..Edit::default() };
    for (state, edited, with_one, with_none) in EDITS {
        let before = in_state(state);
        match before.edited(&edit, weights, now) {
            Edited::Changed(transition) => {
                assert_eq!(edited, "changed", "{state}");
                let after = &transition.task;
                assert_eq!((state_of(after), after.version), (state, before.version + 1));
                assert_eq!((after.priority, after.updated_at), (Priority::Critical, now), "{state}");
                assert_eq!(
                    after.place != before.place,
                    state == "queued",
                    "only a queued task gets a new place: {state}"
                );
                assert_eq!(transition.events[0].event_type.as_str(), "task.updated");
                assert_eq!(after.edited(&edit, weights, now), Edited::Unchanged, "again: {state}");
            }
            other => assert_eq!((edited, other), ("finished", Edited::Finished), "{state}"),
        }
        let untouched = before.edited(&Edit::default(), weights, now);
        assert_eq!(
            untouched,
            if edited == "finished" { Edited::Finished } else { Edited::Unchanged },
            "{state}"
        );
        for (depends_on, expected) in [(vec![id("t-a")], with_one), (Vec::new(), with_none)] {
            let unmet = depends_on.len() as u32;
            let transition = before.depending_on(depends_on.clone(), unmet, weights, now);
            let after = transition.as_ref().map_or(".", |transition| state_of(&transition.task));
            assert_eq!(after, expected, "{state}, with {unmet} unmet");
            let Some(transition) = transition else { continue };
            assert_eq!((&transition.task.depends_on, transition.task.unmet), (&depends_on, unmet), "{state}");
            assert_eq!(transition.task.version, before.version + 1, "{state}");
            assert_eq!(transition.events[0].event_type.as_str(), "task.dependencies_changed", "{state}");
        }
    }
}

#[test]
fn dependents_do_not_change_the_state_or_the_place() {
    for (state, ..) in EDITS {
        let before = in_state(state);
        let more = before.with_more_dependents(2);
        assert_eq!((more.dependents, state_of(&more), &more.place), (2, state, &before.place));
        assert_eq!(more.with_more_dependents(-3).dependents, 0, "never negative");
        assert_eq!(
            more.needs_reconcile(),
            before.needs_reconcile() || state == "completed",
            "dependents of a completed task must be unblocked: {state}"
        );
    }
}
