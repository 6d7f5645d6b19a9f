//! Publishes lifecycle events of sandboxes, tasks and tickets to the event bus of the account.

use crate::error::Error;
use contract::event_bus::{Detail, LogCheckpoint};
use store::Bus;
use store::bus::Notice;
use store::record::ChangeRecord;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub bus: &'a Bus,
}

/// In the order in which they were stored.
pub type Command = Vec<ChangeRecord>;

/// Number of published events.
pub type Outcome = usize;

/// At-least-once: a retry publishes the same events again, and consumers deduplicate them by `entity_id` and `seq`.
/// Events that are not lifecycle events are skipped.
pub async fn run(deps: Deps<'_>, records: Command) -> Result<Outcome, Error> {
    let notices: Vec<Notice> = records.iter().flat_map(notices_of).collect();
    deps.bus.publish(&notices).await?;
    Ok(notices.len())
}

fn notices_of(record: &ChangeRecord) -> impl Iterator<Item = Notice> {
    let last_seq = record.events.iter().filter_map(|event| event.seq).next_back();
    let log = last_seq.zip(record.log_hash).map(|(seq, hash)| LogCheckpoint { seq, hash });
    let events = record.events.iter().filter(|event| event.event_type.is_lifecycle());
    events.map(move |event| {
        let detail = Detail::new(&record.org, &record.entity, event, log);
        Notice { detail_type: detail.frame.event_type.clone(), detail: detail.encode() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{
        Entity, Event, EventId, EventType, JsonObject, LogHash, OrgId, SandboxId, Source, TaskId, Timestamp,
    };

    fn event(seq: u64, name: &str) -> Event {
        Event {
            seq: Some(seq),
            id: EventId::parse(format!("e-{seq}")).unwrap(),
            event_type: EventType::parse(name).unwrap(),
            source: Source::Worker,
            data: serde_json::from_str::<JsonObject>(r#"{"ok":true}"#).unwrap(),
            created_at: Timestamp::from_secs(0),
            emitted_at: None,
            body: None,
        }
    }

    #[test]
    fn only_lifecycle_events_of_a_sandbox_are_published() {
        let record = ChangeRecord {
            entity: Entity::Sandbox(SandboxId::parse("s-1").unwrap()),
            org: OrgId::parse("acme").unwrap(),
            generation: 1,
            events: vec![event(1, "agent.started"), event(2, "agent.completed"), event(3, "agent.message")],
            log_hash: Some(LogHash::EMPTY),
        };
        let notices: Vec<Notice> = notices_of(&record).collect();
        let types: Vec<&str> = notices.iter().map(|notice| notice.detail_type.as_str()).collect();
        assert_eq!(types, ["SANDBOX_AGENT_STARTED", "SANDBOX_AGENT_COMPLETED"]);
        let detail: serde_json::Value = serde_json::from_str(&notices[1].detail).unwrap();
        assert_eq!(
            (&detail["org"], &detail["entity_id"], &detail["seq"]),
            (&"acme".into(), &"s-1".into(), &2.into())
        );
        assert_eq!(detail["payload"]["ok"], true);
        let checkpoint = serde_json::json!({"seq": 3, "hash": LogHash::EMPTY});
        assert_eq!(detail["log"], checkpoint, "the hash is that of the log after all events of the record");
    }

    #[test]
    fn all_events_of_a_task_are_published() {
        let record = ChangeRecord {
            entity: Entity::Task(TaskId::parse("t-1").unwrap()),
            org: OrgId::parse("acme").unwrap(),
            generation: 1,
            events: vec![event(1, "task.created"), event(2, "task.needs_revision")],
            log_hash: None,
        };
        let notices: Vec<Notice> = notices_of(&record).collect();
        let types: Vec<&str> = notices.iter().map(|notice| notice.detail_type.as_str()).collect();
        assert_eq!(types, ["TASK_CREATED", "TASK_NEEDS_REVISION"]);
        let detail: serde_json::Value = serde_json::from_str(&notices[0].detail).unwrap();
        assert_eq!(
            (&detail["org"], &detail["entity_type"], &detail["entity_id"]),
            (&"acme".into(), &"task".into(), &"t-1".into())
        );
    }
}
