//! What people change of a task, in every state.

use super::*;
use crate::task::transitions::tests::{at, id, in_state, state_of};

/// A row per state: what an edit makes of it, then what it is after it waits for one more, and for none.
const EDITS: [(&str, &str, &str, &str); 10] = [
    ("waiting", "changed", "waiting", "queued"),
    ("queued", "changed", "waiting", "queued"),
    ("claiming", "changed", ".", "."),
    ("assigned", "changed", ".", "."),
    ("running", "changed", ".", "."),
    ("validating", "changed", ".", "."),
    ("needs_revision", "changed", ".", "."),
    ("completed", "over", ".", "."),
    ("failed", "over", ".", "."),
    ("cancelled", "over", ".", "."),
];

#[test]
fn what_is_over_is_not_edited_and_what_has_begun_waits_for_nothing_more() {
    let (now, weights) = (at(1_000), &Weights::default());
    let edit = Edit { priority: Some(Priority::Critical), ..Edit::default() };
    for (state, edited, with_one, with_none) in EDITS {
        let before = in_state(state);
        match before.edited(&edit, weights, now) {
            Edited::Changed(moved) => {
                assert_eq!(edited, "changed", "{state}");
                let after = &moved.task;
                assert_eq!((state_of(after), after.version), (state, before.version + 1));
                assert_eq!((after.priority, after.updated_at), (Priority::Critical, now), "{state}");
                assert_eq!(after.place != before.place, state == "queued", "it takes another place: {state}");
                assert_eq!(moved.events[0].event_type.as_str(), "task.updated");
                assert_eq!(after.edited(&edit, weights, now), Edited::Same, "again: {state}");
            }
            other => assert_eq!((edited, other), ("over", Edited::Over), "{state}"),
        }
        let untouched = before.edited(&Edit::default(), weights, now);
        assert_eq!(untouched, if edited == "over" { Edited::Over } else { Edited::Same }, "{state}");
        for (depends_on, expected) in [(vec![id("t-a")], with_one), (Vec::new(), with_none)] {
            let unmet = depends_on.len() as u32;
            let moved = before.depending_on(depends_on.clone(), unmet, weights, now);
            let after = moved.as_ref().map_or(".", |moved| state_of(&moved.task));
            assert_eq!(after, expected, "{state}, with {unmet} to wait for");
            let Some(moved) = moved else { continue };
            assert_eq!((&moved.task.depends_on, moved.task.unmet), (&depends_on, unmet), "{state}");
            assert_eq!(moved.task.version, before.version + 1, "{state}");
            assert_eq!(moved.events[0].event_type.as_str(), "task.dependencies_changed", "{state}");
        }
    }
}

#[test]
fn others_come_to_wait_for_a_task_and_it_stays_where_it_is() {
    for (state, ..) in EDITS {
        let before = in_state(state);
        let more = before.awaited_by_more(2);
        assert_eq!((more.dependents, state_of(&more), &more.place), (2, state, &before.place));
        assert_eq!(more.awaited_by_more(-3).dependents, 0, "never fewer than none");
        assert_eq!(
            more.needs_reconcile(),
            before.needs_reconcile() || state == "completed",
            "they have to be told: {state}"
        );
    }
}
