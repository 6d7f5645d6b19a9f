//! Every trigger in every status.

use super::*;
use crate::{OrgId, SandboxId, Timestamp};

/// A row per trigger, a column per status, and a dot where the status does not change.
const TRANSITIONS: &str = "
trigger              | registered | pending    | creating   | running    | completing | completed | failed | terminated | unknown
provisioning started | .          | creating   | .          | .          | .          | .         | .      | .          | .
provisioning failed  | .          | failed     | failed     | .          | .          | .         | .      | .          | .
worker reported      | running    | .          | running    | .          | .          | .         | .      | .          | .
work completed       | .          | .          | .          | completing | .          | .         | .      | .          | .
work failed          | .          | .          | .          | failed     | .          | .         | .      | .          | .
dead                 | failed     | failed     | failed     | failed     | failed     | .         | .      | .          | failed
stuck_creating       | failed     | failed     | failed     | failed     | failed     | .         | .      | .          | failed
never_started        | failed     | failed     | failed     | failed     | failed     | .         | .      | .          | failed
timeout              | failed     | failed     | failed     | failed     | failed     | .         | .      | .          | failed
lost                 | failed     | failed     | failed     | failed     | failed     | .         | .      | .          | failed
idle_timeout         | terminated | terminated | terminated | terminated | terminated | .         | .      | .          | terminated
stuck_running        | terminated | terminated | terminated | terminated | terminated | .         | .      | .          | terminated
stuck_starting       | terminated | terminated | terminated | terminated | terminated | .         | .      | .          | terminated
not_needed           | terminated | terminated | terminated | terminated | terminated | .         | .      | .          | terminated
terminated           | terminated | terminated | terminated | terminated | terminated | .         | .      | .          | terminated
released             | .          | .          | .          | .          | completed  | .         | .      | .          | completed
";

#[test]
fn status_follows_the_transition_table() {
    let (statuses, rows) = table();
    assert_eq!(statuses, Status::ALL.map(Status::as_str), "every status has a column");
    for (name, cells) in rows {
        assert_eq!(cells.len(), statuses.len(), "{name}");
        for (status, expected) in Status::ALL.into_iter().zip(cells) {
            let mut sandbox = in_status(status);
            let changed = sandbox.transition(trigger(name));
            let seen = if changed { sandbox.status().as_str() } else { "." };
            assert_eq!(seen, expected, "{name} in {status:?}");
            assert_eq!(changed, sandbox.status() != status, "{name} in {status:?}");
        }
    }
}

#[test]
fn a_repeated_trigger_has_no_effect() {
    for (name, _) in table().1 {
        for status in Status::ALL {
            let mut sandbox = in_status(status);
            sandbox.transition(trigger(name));
            let once = sandbox.clone();
            assert!(!sandbox.transition(trigger(name)), "{name} in {status:?}, twice");
            assert_eq!(sandbox, once, "{name} in {status:?}, twice");
        }
    }
}

#[test]
fn a_transition_changes_only_the_status() {
    for (name, _) in table().1 {
        for status in Status::ALL {
            let before = in_status(status);
            let mut after = before.clone();
            after.transition(trigger(name));
            assert_eq!(after.with_status(status), before, "{name} in {status:?}");
        }
    }
}

#[test]
fn a_final_status_never_changes() {
    for (name, _) in table().1 {
        for status in Status::ALL.into_iter().filter(|status| status.is_final()) {
            assert!(!in_status(status).transition(trigger(name)), "{name} in {status:?}");
        }
    }
}

#[test]
fn every_cause_of_an_end_has_a_row() {
    let rows = table().1;
    for cause in Cause::ALL {
        assert!(rows.iter().any(|(name, _)| *name == cause.as_str()), "{cause:?}");
    }
}

type Row = (&'static str, Vec<&'static str>);

/// The columns and the rows of [`TRANSITIONS`].
fn table() -> (Vec<&'static str>, Vec<Row>) {
    let mut lines = TRANSITIONS.trim().lines().map(|line| {
        let mut cells = line.split('|').map(str::trim);
        (cells.next().unwrap(), cells.collect::<Vec<_>>())
    });
    let (_, statuses) = lines.next().unwrap();
    (statuses, lines.collect())
}

fn trigger(name: &str) -> Trigger {
    match name {
        "provisioning started" => Trigger::ProvisioningStarted,
        "provisioning failed" => Trigger::ProvisioningFailed,
        "worker reported" => Trigger::WorkerReported,
        "work completed" => Trigger::WorkCompleted,
        "work failed" => Trigger::WorkFailed,
        "terminated" => Trigger::Terminated,
        "released" => Trigger::Released,
        cause => {
            let found = Cause::ALL.iter().copied().find(|found| found.as_str() == cause);
            Trigger::Ended(found.unwrap_or_else(|| panic!("the table has an unknown trigger: {cause}")))
        }
    }
}

fn in_status(status: Status) -> Sandbox {
    let (id, org) = (SandboxId::parse("s-1").unwrap(), OrgId::parse("acme").unwrap());
    Sandbox::new(id, org, None, Timestamp::from_secs(0)).with_status(status)
}
